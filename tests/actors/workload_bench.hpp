// A workload machine with neighbours written by hand: a quota and pool that give places when the
// test lets them, and nodes that hold its pods. They keep their side of each conversation and
// repeat themselves as the real ones do. Time is virtual; messages can be lost, doubled and
// delayed, and the machine can die after any step.
//
// What the nodes check at every order: I6 (nothing of an attempt before all of the former is gone),
// I7 (nothing runs before all pods of the attempt are bound).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/conversation.hpp"
#include "actors/machine.hpp"
#include "actors/records.hpp"

namespace ebb::test {

namespace v1 = ebb::v1;

/// A job of `pods` workers with one GPU each.
v1::WorkloadSpec a_job(std::uint32_t pods = 2);
v1::WorkloadSpec a_service(std::uint32_t replicas);
v1::WorkloadSpec an_instance();

struct FaultRates {
  double lose = 0, twice = 0, die = 0;
  std::int64_t latest_ms = 1;  // messages take 1 to this long
};

class WorkloadBench {
 public:
  explicit WorkloadBench(const v1::WorkloadSpec& spec, v1::CronScaler cron = {});

  // What the neighbours do.
  std::size_t places_max = 1'000;  // claims that may hold places at once
  v1::ClaimClass place_class = v1::CLAIM_CLASS_IN_QUOTA;
  std::set<std::string> refusing;     // nodes that refuse every pod
  std::set<std::string> silent;       // nodes that hear and say nothing
  std::int64_t leaves_after_ms = 20;  // from GONE ordered to the receipt
  /// How long a pod runs and with what it ends; none: it runs on.
  std::function<std::pair<std::int64_t, int>(std::uint32_t index, std::uint32_t pod,
                                             std::uint32_t attempt)>
      program;
  FaultRates faults;
  void seed(std::uint32_t seed) { random_.seed(seed); }

  // What the test does to it.
  void preempt(std::uint32_t index, v1::PreemptReason reason, bool by_pool);
  void never(std::uint32_t index, const std::string& code, const std::string& message);
  void wait_reason(std::uint32_t index, v1::WaitCode code, const std::string& sentence);
  void upgrade(std::uint32_t index);  // an idle claim is covered by its quota now
  void forget_demand(std::uint32_t index);
  void pod_exits(std::uint32_t index, std::uint32_t pod, int exit_code);
  v1::Reply command(const v1::WorkloadCommand& command);
  v1::WorkloadRecord describe();
  void restart_machine();
  void stay_down_ms(std::int64_t ms);  // dies now, comes back after
  void run_ms(std::int64_t ms);
  /// True if `condition` came true within `ms`.
  bool run_until(const std::function<bool()>& condition, std::int64_t ms = 60'000);
  bool reaches(const std::string& status, std::int64_t ms = 60'000);

  // The single step to disturb, counted from 1; 0: none.
  int die_after_step = 0, lose_message = 0, repeat_message = 0;
  int steps = 0, messages = 0;

  // What became of it.
  const v1::WorkloadRecord& saved() const { return saved_; }
  std::string status() const { return saved_.status(); }
  const v1::ClaimDemand& demand(std::uint32_t index = 0) { return claims_[index].demand; }
  const v1::ClaimUse& use(std::uint32_t index = 0) { return claims_[index].use; }
  std::uint32_t running() const;  // pods
  std::uint32_t holding() const;  // pods that hold a slot
  std::set<std::uint32_t> claims_running() const;
  const v1::PodOrder* order(std::uint32_t index, std::uint32_t pod) const;
  std::vector<std::string> broken;  // rules
  std::vector<std::string> decisions;
  std::vector<std::int64_t> asked_at_ms;  // when each attempt of claim 0 began to wait
  int saves = 0;
  bool ended = false;
  std::int64_t now_ms() const { return now_.mono_ms; }
  std::int64_t wall_ms() const { return now_.wall_ms; }

 private:
  struct Pod {
    v1::PodOrder order;
    v1::PodReport report;
    std::int64_t ends_ms = -1;  // when its next report is due
    bool gone() const {
      return report.state() == v1::POD_STATE_GONE || report.state() == v1::POD_STATE_REFUSED;
    }
  };
  struct Holding {  // one node's pods of one claim
    actors::Conversation conversation;
    std::string told;
    std::uint32_t attempt = 0;
    std::map<std::uint32_t, Pod> pods;
  };
  struct Claim {
    actors::Conversation quota, pool;
    std::string told_by_quota, told_by_pool;
    v1::ClaimDemand demand;
    v1::ClaimUse use;
    v1::ClaimTerms terms;
    v1::ClaimPlacement placement;
  };
  struct Flying {
    v1::Envelope envelope;
    bool to_machine = false;
  };

  Instant now() const { return now_; }
  void step_machine(const std::function<void(actors::Effects&)>& act);
  void carry_out(actors::Effects&& effects, bool dies);
  void fly(v1::Envelope envelope, bool to_machine);
  void hear(const v1::Envelope& envelope);
  void hear_orders(const std::string& node, const v1::PodOrders& orders);
  void carry_out_order(Holding& holding, const v1::PodOrders& orders, const v1::PodOrder& order,
                       const std::string& node);
  void neighbours_speak();
  void place_waiting();
  std::int64_t next_due() const;
  void rebuild();
  bool chance(double rate) { return std::uniform_real_distribution<>(0, 1)(random_) < rate; }

  std::string address_;
  std::uint64_t epoch_ = 1;
  std::unique_ptr<actors::Machine> machine_;
  v1::Record record_;
  v1::WorkloadRecord saved_;
  Instant now_{.mono_ms = 1'000, .wall_ms = 1'764'547'200'000, .speed = 1.0};
  std::int64_t wake_at_ = -1;
  std::int64_t down_until_ = -1;
  std::multimap<std::int64_t, Flying> flying_;
  std::map<std::uint32_t, Claim> claims_;
  std::map<std::pair<std::string, std::uint32_t>, Holding> holdings_;
  v1::Reply reply_;
  std::mt19937 random_{1};
};

}  // namespace ebb::test
