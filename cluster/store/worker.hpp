// A thread that does tasks one after the other, in the order they were given.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ebb::cluster {

class Worker {
 public:
  using Task = std::function<void()>;
  Worker() : thread_([this] { run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Does what was given before, then ends.
  ~Worker();
  void give(Task task);

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ebb::cluster
