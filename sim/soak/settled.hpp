// What must hold once faults have ended: I13 (neighbours agree, no met need waits, all units come
// home), and the count of I14.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "sim/soak/check.hpp"
#include "sim/soak/plan.hpp"

namespace ebb::sim {

class Settled {
 public:
  Settled(const Plan& plan, World& world, Books& books, Checker& checker);
  /// Between the two, no record may be repeated for want of an echo.
  void begin_watch();
  void end_watch();
  void delivered(const v1::Envelope& envelope);
  /// Both sides of every edge have the same totals, now or within a moment: `play` moves on.
  bool check_edges(const std::function<bool(std::int64_t ms)>& play);
  /// No claim waits that fits its quota's free units and the nodes.
  void check_waiting();
  /// After the drain: nothing runs, nothing is charged, every quota holds its guarantee.
  void check_home();
  std::string not_ended() const;

  void evicted(const Eviction& eviction);
  std::uint64_t needless() const;

 private:
  struct Waiting {
    std::string workload;
    std::uint32_t index = 0;
    const WorkloadBook* book = nullptr;
    std::int64_t since = 0;
  };
  std::string unequal_edge() const;
  bool fits(const WorkloadBook& work, bool over_idle) const;
  std::int64_t amount_of(const WorkloadBook& work) const;

  const Plan& plan_;
  World& world_;
  Books& books_;
  Checker& checker_;
  bool watching_ = false;
  std::map<std::string, int> repeated_;
  std::uint64_t saves_at_watch_ = 0;
  std::vector<std::pair<std::int64_t, actors::ClaimKey>> claimants_;  // of evictions
};

}  // namespace ebb::sim
