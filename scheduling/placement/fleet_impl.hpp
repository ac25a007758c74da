// What a Fleet keeps; for fleet.cpp and placement.cpp only.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "scheduling/placement/fleet.hpp"

namespace ebb::scheduling {
struct FleetNode {
  NodeSpec spec;
  bool usable = true;
  bool gone = false;
  std::vector<GpuMilli> firm, all;  // per card: held by holders that stay; by all
  Amount held_firm, held_all;
  std::vector<std::pair<HolderId, std::uint32_t>> pods;
};
struct FleetHolder {
  HolderFacts facts;
  std::vector<Place> places;
  bool alive = false;
};
struct Fleet::Impl {
  std::vector<FleetNode> nodes;
  std::vector<FleetHolder> holders;
  std::vector<HolderId> free_holders;
  void count(const Place& place, int firm, int all) {
    FleetNode& node = nodes.at(place.node);
    for (const GpuPart& part : place.gpus) {
      node.firm.at(part.gpu) += firm * part.gpu_milli;
      node.all.at(part.gpu) += all * part.gpu_milli;
    }
    node.held_firm += place.amount * firm;
    node.held_all += place.amount * all;
  }
};
}  // namespace ebb::scheduling
