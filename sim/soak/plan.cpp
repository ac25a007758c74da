#include "sim/soak/plan.hpp"

#include <algorithm>
#include <map>

#include "actors/records.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kWhole = 1000;
constexpr const char* kPolicies[] = {"PaiStrategyIntelligent", "PaiStrategyStrictFIFO",
                                     "PaiStrategyRoundRobin", "PaiStrategyBalance"};

class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15ull + 0x1234567) {
    plan_.seed = seed;
  }

  Plan draw() {
    plan_.schedulers = static_cast<std::uint32_t>(between(1, 4));
    plan_.chaos_ms = between(10, 60) * 1000;
    draw_nodes();
    draw_quotas();
    draw_works();
    draw_acts();
    draw_net();
    draw_faults();
    return std::move(plan_);
  }

 private:
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  bool chance(std::uint32_t percent) { return random_.below(100) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[random_.below(list.size())];
  }

  void draw_nodes() {
    trees_ = chance(15) ? 2 : 1;
    plan_.types = {"A100"};
    if (chance(25)) plan_.types.push_back("H100");
    // Mostly few: what can go wrong between two nodes is found faster with two.
    const std::int64_t most = chance(10) ? 64 : chance(40) ? 16 : 6;
    const std::int64_t count = between(2 * trees_, std::max<std::int64_t>(most, 2 * trees_));
    const std::int64_t sizes[] = {1, 2, 4, 8};
    const std::int64_t size = sizes[random_.below(4)];
    for (std::int64_t i = 0; i < count; ++i) {
      NodePlan node;
      node.name = "n" + std::to_string(i);
      node.type = one_of(plan_.types);
      node.gpus = chance(80) ? size : sizes[random_.below(4)];
      node.tree = static_cast<std::uint32_t>(i % trees_);
      capacity_[node.tree][node.type] += node.gpus;
      plan_.nodes.push_back(std::move(node));
    }
  }

  void rule(v1::QuotaSpec* spec) {
    spec->set_queue_strategy(kPolicies[random_.below(4)]);
    spec->set_child_preemption(chance(50));
    v1::VictimFilter* filter = spec->mutable_child_filter();
    filter->set_priority_at_most(static_cast<int>(chance(50) ? 9 : between(1, 9)));
    if (chance(30)) filter->add_products(v1::PRODUCT_JOB);
    spec->set_self_preemption(chance(30));
    for (int priority = static_cast<int>(between(4, 9)); priority <= 9; ++priority) {
      spec->add_preemptor_priorities(priority);
    }
    for (int priority = 1; priority <= between(2, 8); ++priority) {
      spec->add_preempted_priorities(priority);
    }
    if (chance(30)) spec->add_preempted_products(v1::PRODUCT_JOB);
    spec->set_idle_closed(chance(8));
    spec->set_gpu_share(true);
  }

  void draw_quotas() {
    const std::int64_t levels = trees_ == 2 ? between(1, 3) : between(1, 4);
    const std::int64_t count =
        std::max<std::int64_t>(trees_, levels == 1 ? trees_ : between(2, chance(15) ? 24 : 8));
    struct Open {
      std::size_t index;
      std::int64_t level;
      std::map<std::string, std::int64_t> left;  // whole GPUs
    };
    std::vector<Open> open;
    for (std::int64_t tree = 0; tree < trees_; ++tree) {
      QuotaPlan root;
      root.tree = static_cast<std::uint32_t>(tree);
      root.process = static_cast<std::uint32_t>(random_.below(plan_.schedulers));
      const std::string id = "q" + std::to_string(tree);
      root.spec.set_quota_id(id);
      root.spec.set_name(id);
      root.spec.set_root_id(id);
      root.spec.set_pool("pool/" + id);
      root.spec.set_resource_type("ECS");
      rule(&root.spec);
      scheduling::Amounts guarantee;
      for (const auto& [type, gpus] : capacity_[root.tree]) {
        guarantee[type].gpu_milli = gpus * kWhole;
      }
      actors::set(root.spec.mutable_guarantee(), guarantee);
      open.push_back({plan_.quotas.size(), 1, capacity_[root.tree]});
      plan_.quotas.push_back(std::move(root));
    }
    while (levels > 1 && static_cast<std::int64_t>(plan_.quotas.size()) < count) {
      Open& above = open[random_.below(open.size())];
      if (above.level >= levels) continue;
      const QuotaPlan& parent = plan_.quotas[above.index];
      QuotaPlan child;
      child.tree = parent.tree;
      child.process =
          chance(50) ? parent.process : static_cast<std::uint32_t>(random_.below(plan_.schedulers));
      const std::string id = "q" + std::to_string(plan_.quotas.size());
      child.spec.set_quota_id(id);
      child.spec.set_name(id);
      child.spec.set_parent_id(parent.spec.quota_id());
      child.spec.set_root_id(parent.spec.root_id());
      child.spec.set_pool(parent.spec.pool());
      child.spec.set_resource_type("ECS");
      rule(&child.spec);
      scheduling::Amounts guarantee;
      std::map<std::string, std::int64_t> own;
      for (auto& [type, gpus] : above.left) {
        const std::int64_t share = between(0, std::max<std::int64_t>(0, gpus * 2 / 3));
        gpus -= share;
        own[type] = share;
        guarantee[type].gpu_milli = share * kWhole;
      }
      actors::set(child.spec.mutable_guarantee(), guarantee);
      const std::int64_t level = above.level + 1;
      open.push_back({plan_.quotas.size(), level, std::move(own)});
      plan_.quotas.push_back(std::move(child));
    }
  }

  void draw_works() {
    const std::int64_t graces[] = {0, 200, 1000, 3000};
    plan_.grace_most_ms = graces[random_.below(4)];
    const std::int64_t count = between(3, chance(20) ? 60 : 20);
    std::int64_t largest = 1;
    for (const NodePlan& node : plan_.nodes) largest = std::max(largest, node.gpus);
    const bool fractions = chance(30);
    for (std::int64_t i = 0; i < count; ++i) {
      WorkPlan work;
      work.at_ms = between(0, plan_.chaos_ms * 8 / 10);
      const QuotaPlan& quota = one_of(plan_.quotas);
      work.quota = quota.spec.quota_id();
      work.pool = quota.spec.pool();
      const std::int64_t kind = between(0, 9);
      work.product = kind < 6   ? v1::PRODUCT_JOB
                     : kind < 9 ? v1::PRODUCT_SERVICE
                                : v1::PRODUCT_INSTANCE;
      if (chance(60) || plan_.types.size() > 1) work.type = one_of(plan_.types);
      work.gpu_milli =
          between(1, chance(70) ? std::min<std::int64_t>(2, largest) : largest) * kWhole;
      if (fractions && chance(50)) work.gpu_milli = chance(50) ? 500 : 250;
      work.pods = static_cast<std::uint32_t>(between(1, chance(70) ? 3 : 8));
      if (work.product == v1::PRODUCT_INSTANCE) work.pods = 1;
      work.priority = static_cast<int>(between(1, 9));
      const std::int64_t idle = between(0, 9);
      work.idle = idle < 5   ? v1::IDLE_MODE_FORBIDDEN
                  : idle < 9 ? v1::IDLE_MODE_ACCEPTED
                             : v1::IDLE_MODE_ONLY;
      work.grace_ms = chance(30) ? 0 : between(0, plan_.grace_most_ms);
      work.leaves_after_ms = chance(50) ? 0 : between(1, std::max<std::int64_t>(1, work.grace_ms));
      work.runs_ms = work.product == v1::PRODUCT_JOB ? between(500, 40'000) : 0;
      if (work.product == v1::PRODUCT_SERVICE && chance(5)) work.runs_ms = between(500, 5'000);
      work.exit_code = chance(90) ? 0 : 1;
      work.workspace = static_cast<std::uint32_t>(random_.below(plan_.schedulers));
      const std::int64_t who = between(0, 9);
      work.principal = who < 6 ? "" : who < 8 ? "dev" : who < 9 ? "reader" : "stranger";
      work.allowed = who < 8;
      plan_.works.push_back(std::move(work));
    }
    std::stable_sort(plan_.works.begin(), plan_.works.end(),
                     [](const WorkPlan& a, const WorkPlan& b) { return a.at_ms < b.at_ms; });
  }

  void draw_acts() {
    std::vector<Act> classes;
    const auto maybe = [&](std::initializer_list<Act> acts) {
      if (chance(50)) classes.insert(classes.end(), acts);
    };
    maybe({Act::Stop, Act::Remove});
    maybe({Act::Scale});
    maybe({Act::Priority});
    maybe({Act::ScaleQuota});
    maybe({Act::Policy, Act::Preemption});
    maybe({Act::Cordon, Act::Uncordon});
    maybe({Act::Drain, Act::Uncordon});
    maybe({Act::AddQuota, Act::DropQuota});
    if (classes.empty()) return;
    const std::int64_t count = between(0, 25);
    for (std::int64_t i = 0; i < count; ++i) {
      plan_.acts.push_back({between(0, plan_.chaos_ms), one_of(classes), random_.next()});
    }
  }

  void draw_net() {
    const std::uint32_t drops[] = {10, 100, 300, 500};
    if (chance(50)) plan_.net.drop_per_mille = drops[random_.below(4)];
    if (chance(50)) plan_.net.double_per_mille = chance(50) ? 50 : 500;
    if (chance(50)) plan_.net.replay_per_mille = chance(50) ? 5 : 50;
    if (!chance(50)) return;
    const std::int64_t kind = between(0, 2);
    plan_.net.delay = kind == 0 ? Delay::Fixed : kind == 1 ? Delay::Exponential : Delay::HeavyTail;
    plan_.net.delay_ms = kind == 0 ? 5 : between(5, 50);
  }

  void draw_faults() {
    std::vector<Fault> classes;
    const auto maybe = [&](std::initializer_list<Fault> faults) {
      if (chance(50)) classes.insert(classes.end(), faults);
    };
    maybe({Fault::Crash, Fault::CrashAll});
    maybe({Fault::CrashBeforeSave, Fault::CrashAfterSave});
    maybe({Fault::Pause});
    maybe({Fault::Zombie});
    maybe({Fault::Slow});
    maybe({Fault::DiskFull});
    maybe({Fault::SlowDisk});
    maybe({Fault::ClockJump});
    maybe({Fault::CutBoth, Fault::CutOneWay, Fault::Flap, Fault::Halves});
    maybe({Fault::AgentCrash, Fault::AgentAtSave, Fault::AgentPause});
    maybe({Fault::NodeReboot, Fault::Rack});
    if (classes.empty()) return;
    const std::int64_t count = between(1, 25);
    for (std::int64_t i = 0; i < count; ++i) {
      FaultPlan fault;
      fault.what = one_of(classes);
      fault.at_ms = between(0, plan_.chaos_ms);
      fault.for_ms = chance(70) ? between(100, 3'000) : between(1'000, 15'000);
      fault.luck = random_.next();
      plan_.faults.push_back(fault);
    }
    std::stable_sort(plan_.faults.begin(), plan_.faults.end(),
                     [](const FaultPlan& a, const FaultPlan& b) { return a.at_ms < b.at_ms; });
  }

  Random random_;
  Plan plan_;
  std::int64_t trees_ = 1;
  std::array<std::map<std::string, std::int64_t>, 2> capacity_;
};
}  // namespace

Plan plan_of(std::uint64_t seed) { return Drawer(seed).draw(); }

const char* name_of(Fault fault) {
  static constexpr const char* kNames[kFaultKinds] = {"crash",
                                                      "crash_before_save",
                                                      "crash_after_save",
                                                      "crash_all",
                                                      "pause",
                                                      "zombie",
                                                      "slow",
                                                      "disk_full",
                                                      "slow_disk",
                                                      "clock_jump",
                                                      "cut_both",
                                                      "cut_one_way",
                                                      "flap",
                                                      "halves",
                                                      "agent_crash",
                                                      "agent_at_save",
                                                      "agent_pause",
                                                      "node_reboot",
                                                      "rack"};
  return kNames[static_cast<int>(fault)];
}

const char* name_of(Act act) {
  static constexpr const char* kNames[] = {"stop",        "scale",  "remove",     "priority",
                                           "scale_quota", "policy", "preemption", "cordon",
                                           "uncordon",    "drain",  "add_quota",  "drop_quota"};
  return kNames[static_cast<int>(act)];
}

}  // namespace ebb::sim
