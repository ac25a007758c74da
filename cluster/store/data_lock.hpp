// Only one process works on a data directory: an flock on DIR/lock, which ends with the process
// however it ends. The file names the holder's pid.
#pragma once
#include <string>

#include "base/result.hpp"

namespace ebb::cluster {

class DataLock {
 public:
  /// Makes the directory (0700) if it is missing. Refused with the other's pid when another process
  /// has it.
  static Result<DataLock> take(const std::string& directory);
  DataLock(DataLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DataLock& operator=(DataLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~DataLock();

 private:
  explicit DataLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace ebb::cluster
