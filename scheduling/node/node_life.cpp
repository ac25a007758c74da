#include "scheduling/node/node_life.hpp"

#include <algorithm>

namespace ebb::scheduling {

NodeHealth decide_node_health(std::int64_t silent_ms, std::int64_t lost_after_ms,
                              std::int64_t beat_ms) {
  if (silent_ms < suspect_after_ms(beat_ms)) return NodeHealth::Ready;
  return silent_ms < lost_after_ms ? NodeHealth::Suspect : NodeHealth::Lost;
}

bool must_stop(std::int64_t without_contact_ms, std::int64_t stop_after_ms) {
  return stop_after_ms > 0 && without_contact_ms >= stop_after_ms;
}

std::int64_t dead_after_ms(std::int64_t stop_after_ms, std::int64_t grace_ms) {
  return stop_after_ms + stop_after_ms / 20 + std::max<std::int64_t>(0, grace_ms) + kDeathMarginMs;
}

bool is_dead_by_own_hand(std::int64_t silent_ms, std::int64_t stop_after_ms,
                         std::int64_t grace_ms) {
  return stop_after_ms > 0 && silent_ms >= dead_after_ms(stop_after_ms, grace_ms);
}

DrainAnswer decide_drain(const DrainFacts& facts, bool force) {
  if (force || facts.idle) return {true, {}};
  if (facts.instance) return {false, "is a development instance"};
  if (facts.min_run_ms > 0 && (facts.starting || facts.ran_ms < facts.min_run_ms)) {
    return {false, "has run for " + std::to_string(facts.ran_ms / 1'000) + " of the " +
                       std::to_string(facts.min_run_ms / 1'000) + " s that its quota promises it"};
  }
  return {true, {}};
}

}  // namespace ebb::scheduling
