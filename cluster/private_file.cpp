#include "cluster/private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace ebb::cluster {
namespace {
constexpr std::size_t kFileBytesMax = 1 << 20;

Refusal failed(const char* what, const std::string& path) {
  return {"File", std::string("cannot ") + what + " " + path + ": " + std::strerror(errno), 500};
}
}  // namespace

Result<Ok> write_private_file(const std::string& path, const std::string& content) {
  const std::string next = path + ".new";
  const int fd = ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return failed("write", next);
  const bool written =
      ::fchmod(fd, 0600) == 0 &&
      ::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
      ::fsync(fd) == 0;
  ::close(fd);
  if (!written || ::rename(next.c_str(), path.c_str()) != 0) {
    const Refusal refusal = failed("write", path);
    ::unlink(next.c_str());
    return refusal;
  }
  return Ok{};
}

Result<std::string> read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed("read", path);
  std::string content;
  char buffer[4096];
  ssize_t length = 0;
  while ((length = ::read(fd, buffer, sizeof buffer)) > 0 && content.size() <= kFileBytesMax) {
    content.append(buffer, static_cast<std::size_t>(length));
  }
  ::close(fd);
  if (length < 0) return failed("read", path);
  if (content.size() > kFileBytesMax) return Refusal{"File", path + " is larger than 1 MiB", 500};
  return content;
}

Result<Ok> make_private_directory(const std::string& path) {
  std::error_code error;
  if (std::filesystem::create_directories(path, error)) {
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  }
  if (!std::filesystem::is_directory(path)) {
    return Refusal{"File", "cannot make the directory " + path + ": " + error.message(), 500};
  }
  return Ok{};
}

}  // namespace ebb::cluster
