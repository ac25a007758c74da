// The nodes of one pool as last seen, with who holds which GPU. Kept up to date change by change;
// nothing is copied for a decision. Indexes: nodes by (type, what is free), and per node what could
// be freed by class and priority.
//
// Units: GPU thousandths per card, CPU thousandths, bytes. Handles are dense and reused only after
// removal. Errors: none. A broken precondition (unknown handle, GPU number out of range) stops the
// program. Source: DESIGN sections 4 and 5.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scheduling/amount.hpp"

namespace ebb::scheduling {

using NodeId = std::uint32_t;
using HolderId = std::uint32_t;
inline constexpr std::uint32_t kNone = 0xffffffffu;

struct NodeSpec {
  std::string name;
  std::string type;
  std::uint32_t gpus = 0;  // whole cards; total.gpu_milli == 1000 * gpus
  Amount total;
};

struct GpuPart {
  std::uint32_t gpu = 0;   // number on its node
  GpuMilli gpu_milli = 0;  // 1000: the whole card
  friend bool operator==(const GpuPart&, const GpuPart&) = default;
};
struct Place {
  std::uint32_t pod = 0;  // rank within the claim
  NodeId node = kNone;
  std::vector<GpuPart> gpus;
  Amount amount;
  friend bool operator==(const Place&, const Place&) = default;
};

enum class HolderClass : std::uint8_t { Idle, InQuota };
enum class HolderProduct : std::uint8_t { Job, Service, Instance };

/// A claim that holds places, or has them reserved.
struct HolderFacts {
  HolderClass holder_class = HolderClass::InQuota;
  HolderProduct product = HolderProduct::Job;
  int priority = 1;  // 1 to 9
  std::uint32_t quota =
      0;  // dense number of the quota it is charged to (in-quota) or waits in (idle)
  std::int64_t started_ms = 0;  // later = newer = taken first among equals
  std::int64_t checkpoint_ms =
      0;  // last checkpoint; work since then is lost by an eviction. 0: since its start
  bool leaving =
      false;  // asked to go, or promised to a plan: its slots count as free for planning, once
  bool spared = false;  // may not be taken now (minimum run time, just resumed)
};

class Fleet {
 public:
  Fleet();
  ~Fleet();
  Fleet(Fleet&&) noexcept;
  Fleet& operator=(Fleet&&) noexcept;

  NodeId add_node(const NodeSpec& spec);
  /// Not usable: nothing new is placed on it (cordoned, suspect, lost); what it holds stays.
  void set_usable(NodeId node, bool usable);
  bool usable(NodeId node) const;
  /// Holds on it are forgotten with it.
  void remove_node(NodeId node);
  NodeId find_node(std::string_view name) const;  // kNone if unknown
  const NodeSpec& node(NodeId node) const;
  std::vector<NodeId> nodes() const;

  HolderId add_holder(const HolderFacts& facts);
  void update_holder(HolderId holder, const HolderFacts& facts);
  const HolderFacts& holder(HolderId holder) const;
  void remove_holder(HolderId holder);  // releases all its places
  /// The holder's pod `place.pod` occupies or reserves this place. It may overlap places of leaving
  /// holders, never exceed the card beside those that are not leaving (the caller got it from
  /// decide_placement or from the node).
  void hold(HolderId holder, const Place& place);
  void release(HolderId holder, std::uint32_t pod);
  const std::vector<Place>& places(HolderId holder) const;
  /// All its places are free of every other holder: the pods may be bound.
  bool is_ready(HolderId holder) const;
  /// Holders with a place on the node.
  std::vector<HolderId> holders_on(NodeId node) const;

  /// Sums over usable nodes of a type ("" = all): what exists; what no holder occupies or reserves;
  /// by class.
  Amount total(std::string_view type) const;
  Amount free(std::string_view type) const;
  Amount held(std::string_view type, HolderClass holder_class) const;
  std::vector<std::string> types() const;
  /// On one node.
  Amount free_on(NodeId node) const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  Impl* impl_;
};

}  // namespace ebb::scheduling
