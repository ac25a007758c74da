// One thread that calls back at given moments (steady milliseconds, as Instant::mono_ms).
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <tuple>
#include <vector>

namespace ebb::actors {

class Timer {
 public:
  Timer() : thread_([this] { run(); }) {}
  ~Timer() { stop(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  /// Calls `task` on the timer's thread when mono_ms has come; at once if it has passed. It must
  /// not wait.
  void at(std::int64_t mono_ms, std::function<void()> task);
  /// Nothing is called after this; what was to come is dropped.
  void stop();

 private:
  struct Entry {
    std::int64_t mono_ms;
    std::uint64_t number;  // of two at the same moment the earlier given comes first
    std::function<void()> task;
    bool operator>(const Entry& other) const {
      return std::tie(mono_ms, number) > std::tie(other.mono_ms, other.number);
    }
  };
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> entries_;
  std::uint64_t given_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ebb::actors
