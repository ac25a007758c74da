// The invariants I1 to I12 of DESIGN 7 as plain checks on saved records and on what really runs.
//
// After a step it looks at what that step touched; `check_all` looks at everything. The first
// violation is kept, with the step's moment.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "sim/soak/books.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {

struct Violation {
  std::string invariant;  // "I4"
  std::string text;
  std::int64_t at_ms = 0;
  std::uint64_t step = 0;
};

class Checker {
 public:
  Checker(World& world, Books& books) : world_(world), books_(books) {}
  /// What was touched since the last call.
  void check();
  void check_all();
  void process_started(const PodId& id, const std::string& node);
  void process_ended(const PodId& id, const std::string& node);
  void operators_drained() { drained_ = true; }
  void fail(const std::string& invariant, const std::string& text);

  const std::optional<Violation>& violation() const { return violation_; }
  std::uint64_t checks() const { return checks_ + books_.comparisons; }
  std::uint64_t evictions() const { return evictions_; }
  std::function<void(const Eviction&)> on_eviction;

 private:
  bool holds(bool condition) {
    ++checks_;
    return condition;
  }
  void check_quota(const std::string& id, QuotaBook& quota);
  void check_edge(const std::string& parent_id, const std::string& id, const EdgeBook& edge);
  void check_node(const std::string& name, const NodeBook& node);
  void check_trees();
  void check_start(const PodId& id, const std::string& node);
  void check_eviction(const Eviction& eviction);
  bool is_above(const std::string& quota, const std::string& id) const;

  World& world_;
  Books& books_;
  std::optional<Violation> violation_;
  std::uint64_t checks_ = 0, evictions_ = 0;
  bool drained_ = false;
  std::vector<std::pair<PodId, std::string>> started_;
  std::map<actors::ClaimKey, std::map<std::uint32_t, int>> live_;  // attempt -> processes
};

}  // namespace ebb::sim
