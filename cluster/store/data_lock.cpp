#include "cluster/store/data_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace ebb::cluster {

Result<DataLock> DataLock::take(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::create_directories(directory, error)) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  const std::string path = directory + "/lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Refusal{"DataDirectory", "cannot open " + path + ": " + std::strerror(errno), 500};
  }
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char pid[32] = {};
    const ssize_t length = ::pread(fd, pid, sizeof pid - 1, 0);
    ::close(fd);
    const std::string holder = length > 0 ? std::string(pid, std::strcspn(pid, "\n")) : "unknown";
    return Refusal{"DataDirectory",
                   "data directory " + directory + " is in use by the process with pid " + holder,
                   409};
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    // The lock holds without it; the pid is only for the message above (the disk may be full).
  }
  return DataLock(fd);
}

DataLock::~DataLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace ebb::cluster
