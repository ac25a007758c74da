// The life of a node as its scheduler sees it, and what may be concluded from silence.
//
// Unit: milliseconds of a steady clock. Errors: none. Source: RELIABILITY.md 1.6 "Node loss".
// A lost node is not a dead one: its pods may run on behind a cut wire. What proves that an attempt
// is over is a new boot id, the operator's fence, or the job's own dead-man: its nodes stop it
// after `stop_after` without contact, so a scheduler that has heard nothing for longer than that
// may start it elsewhere. Keeps I6.
#pragma once
#include <cstdint>
#include <string>

namespace ebb::scheduling {

/// A node says something this often.
inline constexpr std::int64_t kHeartbeatMs = 2'000;
/// Three missed beats and the time of a message.
constexpr std::int64_t suspect_after_ms(std::int64_t beat_ms) { return 3 * beat_ms + 1'000; }
/// What the scheduler waits beyond what the node itself needs: lateness of timers, of a kill.
inline constexpr std::int64_t kDeathMarginMs = 10'000;
/// What a shim leaves to its agent before it stops a pod itself.
inline constexpr std::int64_t kShimPatienceMs = 2'000;

enum class NodeHealth { Ready, Suspect, Lost };

/// Suspect: takes nothing new, replicas of services are replaced. Lost: leaves the capacity of the
/// tree. `lost_after` below suspect_after_ms counts as that.
NodeHealth decide_node_health(std::int64_t silent_ms, std::int64_t lost_after_ms,
                              std::int64_t beat_ms = kHeartbeatMs);

/// On the node: a pod with a dead-man has to be stopped. `stop_after_ms` 0: it has none.
bool must_stop(std::int64_t without_contact_ms, std::int64_t stop_after_ms);

/// At the scheduler: silence after which a pod with this dead-man is certainly over. A contact is
/// dated by the node as the moment it sent what was answered, so the scheduler's silence never
/// began earlier; clocks may differ by 5%.
std::int64_t dead_after_ms(std::int64_t stop_after_ms, std::int64_t grace_ms);
bool is_dead_by_own_hand(std::int64_t silent_ms, std::int64_t stop_after_ms, std::int64_t grace_ms);

/// One workload on a node that is to be drained.
struct DrainFacts {
  bool idle = false;      // on idle resources: may be asked at any time
  bool instance = false;  // a development instance: someone sits before it
  bool starting = false;  // not running yet
  std::int64_t ran_ms = 0;
  std::int64_t min_run_ms = 0;  // of its quota
};
struct DrainAnswer {
  bool moves = false;
  std::string why;  // where it does not: the rule that keeps it
};
/// Whether a drain may ask it to leave. With `force` everything may be asked.
DrainAnswer decide_drain(const DrainFacts& facts, bool force);

}  // namespace ebb::scheduling
