// Messages on their way from many threads to the one thread that owns a socket. The owner sleeps in
// poll() on `fd`.
#pragma once
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace ebb::cluster {

struct Outgoing {
  std::string to;
  std::string bytes;
};

class Outbox {
 public:
  explicit Outbox(std::size_t most) : most_(most), fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Outbox() { ::close(fd_); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  int fd() const { return fd_; }
  /// False: full, the message is lost.
  bool put(Outgoing message) {
    bool first = false;
    {
      std::lock_guard lock(mutex_);
      if (messages_.size() >= most_) return false;
      first = messages_.empty();
      messages_.push_back(std::move(message));
    }
    if (first) wake();
    return true;
  }
  void wake() {
    const std::uint64_t one = 1;
    if (::write(fd_, &one, sizeof one) < 0) {
      // The counter can only be too high, and then the owner is awake.
    }
  }
  std::vector<Outgoing> take() {
    std::uint64_t count = 0;
    if (::read(fd_, &count, sizeof count) < 0) {
      // Nothing was signalled; looking is harmless.
    }
    std::lock_guard lock(mutex_);
    std::vector<Outgoing> out;
    out.swap(messages_);
    return out;
  }

 private:
  const std::size_t most_;
  const int fd_;
  std::mutex mutex_;
  std::vector<Outgoing> messages_;
};

}  // namespace ebb::cluster
