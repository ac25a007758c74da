// Those who follow a store's changes. A watch begins with the records present and goes on with
// every change, without a gap and without a repeat: the store calls `add` and `tell` from one
// thread, between two saves.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/store/store.hpp"
#include "cluster/store/worker.hpp"

namespace ebb::cluster {

using Records = std::shared_ptr<const std::vector<v1::Record>>;

/// One watch. Letting it go waits for a call that is running, unless it is let go by that very
/// call.
struct Watch {
  Watch(std::string prefix_, Store::Watcher watcher_)
      : prefix(std::move(prefix_)), watcher(std::move(watcher_)) {}
  void tell(const std::vector<v1::Record>& records);
  void end();

  const std::string prefix;

 private:
  std::recursive_mutex mutex;
  Store::Watcher watcher;
  bool ended = false;
};

class Watchers {
 public:
  /// `worker`: where watchers are called; null: at once, in the caller's thread.
  explicit Watchers(Worker* worker) : worker_(worker) {}
  /// The handle to return from Store::watch.
  static std::shared_ptr<void> handle_of(const std::shared_ptr<Watch>& watch);
  void add(const std::shared_ptr<Watch>& watch, std::vector<v1::Record> present);
  void tell(Records changes);
  bool any() const { return any_; }

 private:
  void perform(Worker::Task task);
  Worker* worker_;
  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Watch>> watches_;
};

}  // namespace ebb::cluster
