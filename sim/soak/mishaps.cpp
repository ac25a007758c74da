#include "sim/soak/mishaps.hpp"

#include "sim/soak/build.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kTakeOverMs = 1'000;
}  // namespace

Mishaps::Mishaps(const Plan& plan, World& world, Network& network)
    : plan_(plan), world_(world), network_(network) {
  for (std::uint32_t i = 0; i < plan.schedulers; ++i) {
    schedulers_.push_back(world.process(scheduler_name(i)));
  }
  for (const NodePlan& node : plan.nodes) agents_.push_back(world.process(agent_name(node.name)));
  all_ = schedulers_;
  all_.insert(all_.end(), agents_.begin(), agents_.end());
}

void Mishaps::begin() {
  const std::int64_t zero = world_.now().wall_ms;
  for (const FaultPlan& fault : plan_.faults) {
    world_.at(zero + fault.at_ms, [this, fault] {
      if (!healed_) happen(fault);
    });
  }
  // One that ended at a save comes back after a while, as its supervisor starts it again.
  world_.on_process_end = [this](ProcessId process) {
    later(500, [this, process] {
      if (!world_.is_up(process)) world_.boot_process(process);
    });
  };
}

void Mishaps::later(std::int64_t after_ms, std::function<void()> what) {
  world_.at(world_.now().wall_ms + after_ms, [this, what = std::move(what)] {
    if (!healed_) what();
  });
}

void Mishaps::crash(ProcessId process, std::int64_t for_ms) {
  world_.crash_process(process);
  later(for_ms, [this, process] {
    if (!world_.is_up(process)) world_.boot_process(process);
  });
}

void Mishaps::pause(ProcessId process, std::int64_t for_ms, bool taken_over) {
  if (!world_.is_up(process)) return;
  world_.pause(process);
  if (taken_over) {
    later(kTakeOverMs, [this, process] { world_.take_over(process); });
    later(kTakeOverMs + for_ms, [this, process] { world_.wake_zombie(process); });
  } else {
    later(for_ms, [this, process] { world_.resume(process); });
  }
}

void Mishaps::cut(ProcessId a, ProcessId b, bool both, std::int64_t for_ms) {
  if (a == b) return;
  network_.cut(a, b, true);
  if (both) network_.cut(b, a, true);
  later(for_ms, [this, a, b, both] {
    network_.cut(a, b, false);
    if (both) network_.cut(b, a, false);
  });
}

void Mishaps::flap(ProcessId a, ProcessId b, std::int64_t every_ms, int times) {
  cut(a, b, true, every_ms);
  if (times <= 1) return;
  later(2 * every_ms, [this, a, b, every_ms, times] { flap(a, b, every_ms, times - 1); });
}

void Mishaps::reboot(const std::string& node) {
  const ProcessId agent = world_.process(agent_name(node));
  world_.crash_process(agent);
  world_.launcher(node).clear();
  v1::NodeFacts facts;
  if (world_.read("node/" + node, &facts)) {
    facts.set_boot_id(facts.boot_id() + "+");
    world_.put("node/" + node, "NodeFacts", facts);
  }
}

void Mishaps::happen(const FaultPlan& fault) {
  ++counts_[static_cast<std::size_t>(fault.what)];
  Random luck(fault.luck);
  const ProcessId scheduler = schedulers_[luck.below(schedulers_.size())];
  const std::size_t node = luck.below(plan_.nodes.size());
  const ProcessId agent = agents_[node];
  const ProcessId one = all_[luck.below(all_.size())];
  const ProcessId other = all_[luck.below(all_.size())];
  if (on_fault) {
    on_fault(std::string(name_of(fault.what)) + " of " + world_.name_of(scheduler) + " or " +
             world_.name_of(agent) + " or " + world_.name_of(one) + " - " + world_.name_of(other) +
             " for " + std::to_string(fault.for_ms) + " ms");
  }
  switch (fault.what) {
    case Fault::Crash:
      return crash(scheduler, fault.for_ms);
    case Fault::CrashBeforeSave:
      return world_.crash_at_save(scheduler, true);
    case Fault::CrashAfterSave:
      return world_.crash_at_save(scheduler, false);
    case Fault::CrashAll:
      for (const ProcessId process : schedulers_) crash(process, fault.for_ms);
      return;
    case Fault::Pause:
      return pause(scheduler, fault.for_ms, false);
    case Fault::Zombie:
      return pause(scheduler, fault.for_ms, true);
    case Fault::Slow:
      world_.set_slow(one, static_cast<std::int64_t>(10 + luck.below(990)));
      return later(fault.for_ms, [this, one] { world_.set_slow(one, 0); });
    case Fault::DiskFull:
      world_.set_disk_full(one, true);
      return later(fault.for_ms, [this, one] { world_.set_disk_full(one, false); });
    case Fault::SlowDisk:
      world_.set_save_ms(one, static_cast<std::int64_t>(1 + luck.below(300)));
      return later(fault.for_ms, [this, one] { world_.set_save_ms(one, 0); });
    case Fault::ClockJump:
      return world_.set_clock_skew(one, static_cast<std::int64_t>(luck.below(1'200'000)) - 600'000);
    case Fault::CutBoth:
      return cut(one, other, true, fault.for_ms);
    case Fault::CutOneWay:
      return cut(one, other, false, fault.for_ms);
    case Fault::Flap:
      return flap(one, other, 1 + fault.for_ms / 8, 4);
    case Fault::Halves: {
      std::vector<ProcessId> left, right;
      for (const ProcessId process : all_) (luck.below(2) == 0 ? left : right).push_back(process);
      for (const ProcessId a : left) {
        for (const ProcessId b : right) cut(a, b, true, fault.for_ms);
      }
      return;
    }
    case Fault::AgentCrash:
      return crash(agent, fault.for_ms);
    case Fault::AgentAtSave:
      return world_.crash_at_save(agent, luck.below(2) == 0);
    case Fault::AgentPause:
      return pause(agent, fault.for_ms, false);
    case Fault::NodeReboot:
      reboot(plan_.nodes[node].name);
      return later(fault.for_ms, [this, agent] {
        if (!world_.is_up(agent)) world_.boot_process(agent);
      });
    case Fault::Rack:
      for (std::size_t i = 0; i < agents_.size(); ++i) {
        if (luck.below(3) == 0) crash(agents_[i], fault.for_ms);
      }
      return;
  }
}

void Mishaps::heal() {
  healed_ = true;
  network_.heal();
  world_.on_process_end = nullptr;
  for (const ProcessId process : all_) {
    world_.set_slow(process, 0);
    world_.set_save_ms(process, 0);
    world_.set_clock_skew(process, 0);
    world_.clear_crash_at_save(process);
    world_.set_disk_full(process, false);
    world_.resume(process);
    world_.wake_zombie(process);
    if (!world_.is_up(process)) world_.boot_process(process);
  }
}

}  // namespace ebb::sim
