#include "agent/shim/pod_log.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>

namespace ebb::agent {

bool PodLog::pump(int pipe) {
  char buffer[1 << 16];
  // Bounded, so that a pod that writes without end cannot keep the shim from its other duties.
  for (int i = 0; i < 16; ++i) {
    const ssize_t n = ::read(pipe, buffer, sizeof buffer);
    if (n == 0) return false;
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    write(buffer, static_cast<std::size_t>(n));
  }
  return true;
}

void PodLog::open() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const off_t end = fd_ < 0 ? -1 : ::lseek(fd_, 0, SEEK_END);
  bytes_ = std::max<off_t>(0, end);
}

void PodLog::rotate() {
  ::close(fd_);
  for (int older = files_max_ - 1; older > 0; --older) {
    const std::string from = older == 1 ? path_ : path_ + "." + std::to_string(older - 1);
    ::rename(from.c_str(), (path_ + "." + std::to_string(older)).c_str());
  }
  if (files_max_ <= 1) ::unlink(path_.c_str());
  open();
}

void PodLog::write(const char* text, std::size_t size) {
  while (size > 0) {
    if (fd_ < 0) open();
    if (fd_ < 0) return;
    if (bytes_ >= bytes_max_) {
      rotate();
      continue;
    }
    const auto room = static_cast<std::size_t>(bytes_max_ - bytes_);
    const ssize_t n = ::write(fd_, text, std::min(size, room));
    if (n <= 0) return;
    bytes_ += n;
    text += n;
    size -= static_cast<std::size_t>(n);
  }
}

}  // namespace ebb::agent
