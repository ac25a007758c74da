#include "cluster/store/watchers.hpp"

#include <algorithm>
#include <string_view>

namespace ebb::cluster {

void Watch::tell(const std::vector<v1::Record>& records) {
  std::lock_guard lock(mutex);
  for (const v1::Record& record : records) {
    if (ended) return;
    if (std::string_view(record.key()).starts_with(prefix)) watcher(record);
  }
}

void Watch::end() {
  std::lock_guard lock(mutex);
  ended = true;
}

std::shared_ptr<void> Watchers::handle_of(const std::shared_ptr<Watch>& watch) {
  return std::shared_ptr<void>(watch.get(), [watch](void*) { watch->end(); });
}

void Watchers::perform(Worker::Task task) {
  if (worker_ != nullptr) {
    worker_->give(std::move(task));
  } else {
    task();
  }
}

void Watchers::add(const std::shared_ptr<Watch>& watch, std::vector<v1::Record> present) {
  {
    std::lock_guard lock(mutex_);
    watches_.push_back(watch);
    any_ = true;
  }
  perform([watch, present = std::move(present)] { watch->tell(present); });
}

void Watchers::tell(Records changes) {
  std::vector<std::shared_ptr<Watch>> watches;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(watches_, [](const std::weak_ptr<Watch>& watch) { return watch.expired(); });
    any_ = !watches_.empty();
    for (const std::weak_ptr<Watch>& weak : watches_) {
      if (auto watch = weak.lock()) watches.push_back(std::move(watch));
    }
  }
  if (watches.empty()) return;
  perform([watches = std::move(watches), changes = std::move(changes)] {
    for (const std::shared_ptr<Watch>& watch : watches) watch->tell(*changes);
  });
}

}  // namespace ebb::cluster
