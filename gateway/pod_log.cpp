#include "gateway/pod_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "gateway/api/json.hpp"

namespace ebb::gateway {
namespace {
constexpr off_t kBytesMax = 1'048'576;
}

Result<std::vector<std::string>> last_lines(const std::string& path, std::size_t at_most) {
  const int file =
      path.empty() ? -1 : open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat facts {};
  if (file < 0 || fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    if (file >= 0) close(file);
    return Refusal{"LogNotFound", "the pod's log is not on this machine, or was removed", 404};
  }
  const off_t start = std::max<off_t>(0, facts.st_size - kBytesMax);
  std::string text(static_cast<std::size_t>(facts.st_size - start), '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got =
        pread(file, text.data() + filled, text.size() - filled, start + static_cast<off_t>(filled));
    if (got <= 0) break;
    filled += static_cast<std::size_t>(got);
  }
  close(file);
  text.resize(filled);
  std::vector<std::string> lines;
  std::size_t at = 0;
  if (start > 0) at = std::min(text.size(), text.find('\n') + 1);  // the first line is cut
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(api::plain_text(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  if (lines.size() > at_most)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(at_most));
  return lines;
}

}  // namespace ebb::gateway
