// In which order a quota tries what waits, and when a blocked one stops those behind it.
//
// Units: milliseconds. Errors: an unknown strategy name is a refusal.
// Source: api/NOTES.md "QueueStrategy"; DESIGN section 5 point 2.
//   StrictFIFO   a blocked head blocks all behind it
//   RoundRobin   a blocked one is skipped
//   Balance      a blocked one blocks for kBalanceStepMs, then the next is tried too, after the
//   same time the next Intelligent  priority 7 to 9 as StrictFIFO; below 7 as RoundRobin, and there
//   the priority that orders rises by one
//                each kAgeStepMs of waiting, up to 6
// One that asks for more than the quota could ever hold blocks nobody: it would block for ever.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/result.hpp"

namespace ebb::scheduling {

enum class QueuePolicy { StrictFifo, RoundRobin, Balance, Intelligent };

inline constexpr std::int64_t kBalanceStepMs = 3 * 60 * 1000;
inline constexpr std::int64_t kAgeStepMs = 10 * 60 * 1000;
inline constexpr int kAgedPriorityMax = 6;
inline constexpr int kStrictPriorityMin = 7;

Result<QueuePolicy> parse_queue_policy(std::string_view name);
const char* name_of(QueuePolicy policy);

/// The priority that orders the queue; what it may preempt follows its own priority, never this
/// one.
int order_priority(QueuePolicy policy, int priority, std::int64_t waited_ms);

/// Walks the queue once, in order. Ask `may_try` before each waiting claim, tell `blocked` where it
/// could not start.
class QueueWalk {
 public:
  explicit QueueWalk(QueuePolicy policy) : policy_(policy) {}
  bool may_try() const { return open_; }
  /// `could_ever`: the quota could hold it at some time. `waited_ms`: since it came to the head or
  /// was submitted.
  void blocked(int priority, bool could_ever, std::int64_t waited_ms);

 private:
  QueuePolicy policy_;
  bool open_ = true;
  std::int64_t passes_ = 0;  // Balance: blocked ones let pass so far
};

}  // namespace ebb::scheduling
