// The life of one pod on its node.
//
//   Bound --Run--> Starting --Started--> Running
//     |               |                     |
//     |         Leave, Ended           Leave, Ended
//     |               v                     |
//   Leave          Leaving <----------------+
//     |               |
//     |             Empty
//     +---> Gone <----+          (Starting --Failed--> Gone)
//
// Refused stands outside: such a pod never held anything. A pair that is not in the table is a late
// event and changes nothing. Only Gone frees the slot (R8).
#pragma once
#include <optional>

#include "ebb/v1/node.pb.h"

namespace ebb::actors {

enum class PodEvent { Run, Started, Leave, Ended, Empty, Failed };

struct PodTransition {
  v1::PodState from;
  PodEvent event;
  v1::PodState to;
};

inline constexpr PodTransition kPodTransitions[] = {
    {v1::POD_STATE_BOUND, PodEvent::Run, v1::POD_STATE_STARTING},
    {v1::POD_STATE_BOUND, PodEvent::Leave, v1::POD_STATE_GONE},
    {v1::POD_STATE_STARTING, PodEvent::Started, v1::POD_STATE_RUNNING},
    {v1::POD_STATE_STARTING, PodEvent::Failed, v1::POD_STATE_GONE},
    {v1::POD_STATE_STARTING, PodEvent::Leave, v1::POD_STATE_LEAVING},
    {v1::POD_STATE_STARTING, PodEvent::Ended, v1::POD_STATE_LEAVING},
    {v1::POD_STATE_STARTING, PodEvent::Empty, v1::POD_STATE_GONE},
    {v1::POD_STATE_RUNNING, PodEvent::Leave, v1::POD_STATE_LEAVING},
    {v1::POD_STATE_RUNNING, PodEvent::Ended, v1::POD_STATE_LEAVING},
    {v1::POD_STATE_RUNNING, PodEvent::Empty, v1::POD_STATE_GONE},
    {v1::POD_STATE_LEAVING, PodEvent::Failed, v1::POD_STATE_GONE},
    {v1::POD_STATE_LEAVING, PodEvent::Empty, v1::POD_STATE_GONE},
};

constexpr std::optional<v1::PodState> next_state(v1::PodState from, PodEvent event) {
  for (const PodTransition& transition : kPodTransitions) {
    if (transition.from == from && transition.event == event) return transition.to;
  }
  return std::nullopt;
}

constexpr bool is_over(v1::PodState state) {
  for (const PodTransition& transition : kPodTransitions) {
    if (transition.from == state) return false;
  }
  return true;
}
static_assert(is_over(v1::POD_STATE_GONE) && is_over(v1::POD_STATE_REFUSED));

}  // namespace ebb::actors
