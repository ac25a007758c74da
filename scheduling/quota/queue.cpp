#include "scheduling/quota/queue.hpp"

#include <algorithm>
#include <string>

namespace ebb::scheduling {

Result<QueuePolicy> parse_queue_policy(std::string_view name) {
  if (name.empty() || name == "PaiStrategyIntelligent") return QueuePolicy::Intelligent;
  if (name == "PaiStrategyStrictFIFO") return QueuePolicy::StrictFifo;
  if (name == "PaiStrategyRoundRobin") return QueuePolicy::RoundRobin;
  if (name == "PaiStrategyBalance") return QueuePolicy::Balance;
  return Refusal{"InvalidParameter",
                 "QueueStrategy \"" + std::string(name) +
                     "\" is unknown; allowed: PaiStrategyIntelligent, PaiStrategyBalance, "
                     "PaiStrategyRoundRobin, PaiStrategyStrictFIFO",
                 400};
}

const char* name_of(QueuePolicy policy) {
  switch (policy) {
    case QueuePolicy::StrictFifo:
      return "PaiStrategyStrictFIFO";
    case QueuePolicy::RoundRobin:
      return "PaiStrategyRoundRobin";
    case QueuePolicy::Balance:
      return "PaiStrategyBalance";
    case QueuePolicy::Intelligent:
      return "PaiStrategyIntelligent";
  }
  return "";
}

int order_priority(QueuePolicy policy, int priority, std::int64_t waited_ms) {
  if (policy != QueuePolicy::Intelligent || priority >= kAgedPriorityMax) return priority;
  const std::int64_t risen = priority + std::max<std::int64_t>(0, waited_ms) / kAgeStepMs;
  return static_cast<int>(std::min<std::int64_t>(kAgedPriorityMax, risen));
}

void QueueWalk::blocked(int priority, bool could_ever, std::int64_t waited_ms) {
  if (!could_ever) return;
  switch (policy_) {
    case QueuePolicy::StrictFifo:
      open_ = false;
      break;
    case QueuePolicy::RoundRobin:
      break;
    case QueuePolicy::Balance:
      // The first blocked one lets one pass after one step, the second after two, and so on.
      ++passes_;
      if (waited_ms < passes_ * kBalanceStepMs) open_ = false;
      break;
    case QueuePolicy::Intelligent:
      if (priority >= kStrictPriorityMin) open_ = false;
      break;
  }
}

}  // namespace ebb::scheduling
