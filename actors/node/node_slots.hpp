// Whether a pod fits on its node: the node's last word (I4), whatever pool and workload believe.
//
// Unit: amounts of scheduling/amount.hpp. Errors: the answer is a sentence, empty if it fits.
#pragma once
#include <map>
#include <string>

#include "ebb/v1/node.pb.h"
#include "scheduling/amount.hpp"

namespace ebb::actors {

/// What the pods on a node hold together.
struct NodeUse {
  std::map<std::uint32_t, scheduling::GpuMilli> gpus;  // of each GPU in use
  scheduling::Amount amount;
  void add(const v1::PodOrder& order);
};

/// Why `order` cannot be bound beside `use`; names the field and what is there. Empty: it can.
std::string why_not_bound(const v1::NodeFacts& facts, const NodeUse& use,
                          const v1::PodOrder& order);

}  // namespace ebb::actors
