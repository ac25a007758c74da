// The log of a pod: what comes out of its pipe, in a file that is renamed to FILE.1 when it has
// grown to its limit, and FILE.1 to FILE.2, up to the number of files kept. Text that cannot be
// written (disk full) is dropped: a pod does not stand still for its log.
#pragma once
#include <cstdint>
#include <string>

namespace ebb::agent {

class PodLog {
 public:
  PodLog(std::string path, std::int64_t bytes_max, int files_max)
      : path_(std::move(path)), bytes_max_(bytes_max), files_max_(files_max) {}
  /// Moves what is in the pipe now to the file. False: the pipe has ended.
  bool pump(int pipe);

 private:
  void open();
  void rotate();
  void write(const char* text, std::size_t size);
  const std::string path_;
  const std::int64_t bytes_max_;
  const int files_max_;
  int fd_ = -1;
  std::int64_t bytes_ = 0;
};

}  // namespace ebb::agent
