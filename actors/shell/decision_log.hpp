// The newest decision lines, kept for views; all of them go to the log.
#pragma once
#include <deque>
#include <mutex>

#include "cluster/post.hpp"

namespace ebb::actors {

class DecisionLog {
 public:
  static constexpr std::size_t kLinesKept = 4096;
  void add(const std::string& actor, std::vector<std::string> lines, std::int64_t wall_ms) {
    std::lock_guard lock(mutex_);
    for (std::string& line : lines) {
      lines_.push_back({++numbered_, wall_ms, actor, std::move(line)});
      if (lines_.size() > kLinesKept) lines_.pop_front();
    }
  }
  std::vector<cluster::DecisionLine> after(std::uint64_t number, std::size_t at_most) const {
    std::lock_guard lock(mutex_);
    auto first = lines_.end();
    while (first != lines_.begin() && at_most > 0 && std::prev(first)->number > number) {
      --first;
      --at_most;
    }
    return {first, lines_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::deque<cluster::DecisionLine> lines_;
  std::uint64_t numbered_ = 0;
};

}  // namespace ebb::actors
