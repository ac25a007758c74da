// Waiting in tests: for a condition, with a deadline, never for a time.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ebb::tests {

/// Something that several threads change and a test waits for.
template <class T>
class Awaited {
 public:
  template <class Change>
  void change(Change&& make) {
    {
      std::lock_guard lock(mutex_);
      make(value_);
    }
    changed_.notify_all();
  }
  /// True as soon as `condition(value)` holds; false if it does not within `seconds`.
  template <class Condition>
  bool wait(Condition&& condition, int seconds = 20) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(seconds),
                             [&] { return condition(value_); });
  }
  T get() {
    std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_{};
};

/// For a condition that nobody announces: looked at again and again, true as soon as it holds,
/// false if it does not within `seconds`.
template <class Condition>
bool eventually(Condition&& condition, int seconds = 20) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace ebb::tests
