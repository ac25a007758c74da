#include "actors/shell/timer.hpp"

#include <chrono>
#include <tuple>

namespace ebb::actors {

void Timer::at(std::int64_t mono_ms, std::function<void()> task) {
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    first = entries_.empty() || mono_ms < entries_.top().mono_ms;
    entries_.push({mono_ms, ++given_, std::move(task)});
  }
  if (first) changed_.notify_one();
}

void Timer::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
  entries_ = {};
}

void Timer::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (entries_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const std::chrono::steady_clock::time_point due{
        std::chrono::milliseconds(entries_.top().mono_ms)};
    if (std::chrono::steady_clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    // The queue gives only const access to its top; the entry is popped right after it was moved
    // from.
    const auto task = std::move(const_cast<Entry&>(entries_.top()).task);
    entries_.pop();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace ebb::actors
