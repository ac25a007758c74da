// Where a claim's pods go, and whom that costs. One decision for the whole need: placement and
// victims together.
//
// Means in order: free slots; idle victims; in-quota victims that a rule names. A victim is a whole
// claim (a gang with all its pods), never a part. No victim is taken unless the whole need is then
// met, and none that is not needed: with any one victim taken out of the answer the claim no longer
// fits (or must_free is no longer met). Order of victims: idle before in-quota, lower priority,
// less work lost since the last checkpoint, newest first. Between node sets the one wins whose
// (highest class, highest priority, number of victims, work lost) is lowest; with equal victims
// least fragmentation added, then fewest nodes, then node order (stable).
//
// Errors: not found is an answer with the numbers that decided. A search that ended by its budget
// says so. Source: DESIGN section 5 points 3 and 4; PEERS section E.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scheduling/amount.hpp"
#include "scheduling/placement/fleet.hpp"

namespace ebb::scheduling {

struct PodGroup {
  std::uint32_t pods = 0;
  Amount each;
};

/// Whose in-quota work may be taken. A holder is takeable if any rule of the request allows it.
struct TakeRule {
  std::vector<bool> quotas;                  // by dense quota number; beyond its size: no
  bool products[3] = {false, false, false};  // by HolderProduct
  int priority_at_most = 0;
  std::uint16_t priorities = 0xffff;  // bit p set: priority p may be taken
};

struct PlaceRequest {
  std::vector<PodGroup> groups;
  std::vector<std::string>
      node_types;          // allowed; empty: any. All pods of a claim get the same type
  bool take_idle = false;  // an in-quota claim may evict idle holders
  bool free_only = false;  // an idle claim: not what others are only about to leave
  std::vector<TakeRule> rules;
  Amount must_free;           // in-quota victims have to hold at least this (of the chosen type)
  std::vector<NodeId> avoid;  // nodes that refused this claim
  std::int64_t now_ms = 0;    // for work lost
  std::uint32_t search_budget = 2'000;  // node sets looked at before giving up
};

enum class NoPlace : std::uint8_t { None, Capacity, Node };
struct PlaceAnswer {
  bool found = false;
  std::vector<Place> places;
  std::vector<HolderId> victims;  // newly to be taken; holders already leaving are not listed
  NoPlace why = NoPlace::None;
  GpuMilli wanted_gpu_milli = 0;
  GpuMilli usable_gpu_milli = 0;    // free or takeable on usable nodes of the best type
  std::uint32_t pods_that_fit = 0;  // of the first group, were every takeable holder gone
  bool budget_ended = false;
  std::string node_type;  // chosen
};

PlaceAnswer decide_placement(const Fleet& fleet, const PlaceRequest& request);

}  // namespace ebb::scheduling
