// Who asks: clients that submit until they are answered (I10), operators that change things.
//
// A client repeats its request with the same token until an answer comes, under a new id each time,
// as gateways draw them. What was acknowledged is remembered and compared with the records.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/soak/check.hpp"
#include "sim/soak/plan.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {

class Operators {
 public:
  Operators(const Plan& plan, World& world, Books& books, Checker& checker);
  /// Arms all that the plan says.
  void begin();
  /// From now on nobody asks for anything new; what is on its way is still repeated.
  void rest() { resting_ = true; }
  void heard(const v1::Envelope& reply);
  void record_erased(const std::string& address);
  /// Stops all that is not over; false when there is nothing left to stop.
  bool stop_all();
  void uncordon_all();
  /// I10 and I12 at the end.
  void check_promises();
  std::uint64_t acknowledged() const { return acknowledged_.size(); }

 private:
  void submit(std::size_t i, int tries);
  void act(const ActPlan& plan);
  void command(const std::string& to, v1::Envelope envelope);
  void set_programs(const WorkPlan& work, const std::string& address);
  const std::string* pick_workload(Random& luck, v1::Product product, bool any) const;

  const Plan& plan_;
  World& world_;
  Books& books_;
  Checker& checker_;
  bool resting_ = false;
  std::map<std::size_t, std::string> acknowledged_;  // work -> id
  std::set<std::size_t> refused_;
  std::map<std::string, std::size_t> asked_;  // workload id -> work
  std::set<std::string> removing_;            // addresses
  std::uint64_t next_quota_ = 0;
};

}  // namespace ebb::sim
