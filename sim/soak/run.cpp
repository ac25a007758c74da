#include "sim/soak/run.hpp"

#include <algorithm>
#include <deque>
#include <ostream>

#include "sim/soak/build.hpp"
#include "sim/soak/mishaps.hpp"
#include "sim/soak/network.hpp"
#include "sim/soak/operators.hpp"
#include "sim/soak/settled.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kZero = 1'800'000'000'000;  // on the wall
constexpr std::int64_t kAfterGraceMs = 3'000;      // I13
constexpr std::int64_t kWatchMs = 7'000;           // an unanswered record is repeated thrice in it
constexpr std::int64_t kDrainStepMs = 1'000;
constexpr int kDrainStepsMost = 150;
constexpr std::size_t kLastEvents = 50;
constexpr std::uint64_t kSampleEvery = 256;
constexpr std::uint64_t kSweepEvery = 4096;
constexpr std::uint64_t kStepsMost = 1'000'000;

std::string line_of(const v1::Envelope& envelope) {
  return envelope.from() + " -> " + envelope.to() + ": " + name_of_kind(envelope);
}

class Run {
 public:
  Run(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        options_(options),
        world_(plan.seed, kZero),
        books_(plan.types),
        checker_(world_, books_),
        network_(plan.net, plan.seed, world_),
        mishaps_(plan, world_, network_),
        operators_(plan, world_, books_, checker_),
        settled_(plan, world_, books_, checker_) {}

  RunResult run() {
    watch();
    build(plan_, &world_);
    for (std::uint32_t i = 0; i < plan_.schedulers; ++i) {
      world_.boot_process(world_.process(scheduler_name(i)));
    }
    for (const NodePlan& node : plan_.nodes) {
      world_.boot_process(world_.process(agent_name(node.name)));
    }
    operators_.begin();
    mishaps_.begin();
    if (play_all()) checker_.check_all();
    return result();
  }

 private:
  bool play(std::int64_t ms) {
    const bool good = world_.run_until(world_.now().wall_ms + ms, kStepsMost);
    if (!good) checker_.fail("I13", "the world did not come to rest");
    if (good) checker_.check();
    return !checker_.violation();
  }

  bool play_all() {
    if (!play(plan_.chaos_ms)) return false;
    note("heal");
    mishaps_.heal();
    operators_.rest();
    if (!play(plan_.grace_most_ms + kAfterGraceMs)) return false;
    settled_.begin_watch();
    if (!play(kWatchMs)) return false;
    settled_.end_watch();
    if (checker_.violation()) return false;
    if (!settled_.check_edges([this](std::int64_t ms) { return play(ms); })) return false;
    settled_.check_waiting();
    if (checker_.violation()) return false;
    operators_.check_promises();
    note("drain");
    operators_.uncordon_all();
    for (int i = 0; operators_.stop_all(); ++i) {
      if (i >= kDrainStepsMost) {
        checker_.fail("I13", "workloads do not end: " + settled_.not_ended());
        return false;
      }
      if (!play(kDrainStepMs)) return false;
    }
    if (!play(plan_.grace_most_ms + kAfterGraceMs)) return false;
    settled_.check_home();
    return !checker_.violation();
  }

  void note(const std::string& line) {
    if (options_.trace != nullptr) {
      *options_.trace << world_.now().wall_ms - kZero << " ms " << line << '\n';
    }
    notes_.push_back({world_.now().wall_ms - kZero, line});
    if (notes_.size() > kLastEvents) notes_.pop_front();
  }

  void watch() {
    world_.on_save = [this](const v1::Record& record) {
      const bool gone = record.erased() && record.kind() == "WorkloadRecord";
      books_.saved(record);
      if (gone) operators_.record_erased(record.key());
    };
    world_.on_start = [this](const PodId& id, const std::string& node) {
      ++started_;
      note("process of " + id.workload + "/" + std::to_string(id.index) + " attempt " +
           std::to_string(id.attempt) + " pod " + std::to_string(id.pod) + " starts on " + node);
      checker_.process_started(id, node);
    };
    world_.on_end = [this](const PodId& id, const std::string& node) {
      note("process of " + id.workload + "/" + std::to_string(id.index) + " attempt " +
           std::to_string(id.attempt) + " pod " + std::to_string(id.pod) + " ends on " + node);
      checker_.process_ended(id, node);
    };
    world_.on_outside = [this](const v1::Envelope& envelope) { operators_.heard(envelope); };
    world_.on_decision = [this](const std::string& address, const std::string& line) {
      note(address + ": " + line);
    };
    world_.on_delivered = [this](const v1::Envelope& envelope) { delivered(envelope); };
    world_.after_step = [this] {
      const std::uint64_t step = world_.counters().steps;
      if (options_.checks == Checks::Sampled && step % kSampleEvery != 0) return;
      if (step % kSweepEvery == 0) return checker_.check_all();
      checker_.check();
    };
    mishaps_.on_fault = [this](const std::string& line) { note("fault: " + line); };
    checker_.on_eviction = [this](const Eviction& eviction) { settled_.evicted(eviction); };
  }

  void delivered(const v1::Envelope& envelope) {
    settled_.delivered(envelope);
    if (options_.trace != nullptr) {
      *options_.trace << world_.now().wall_ms - kZero << " ms " << line_of(envelope) << ' '
                      << envelope.ShortDebugString() << '\n';
    }
  }

  RunResult result() {
    RunResult result;
    result.violation = checker_.violation();
    if (result.violation) {
      for (const auto& [ms, line] : notes_) {
        result.last_events.push_back(std::to_string(ms) + " ms " + line);
      }
    }
    result.hash = world_.hash();
    result.virtual_ms = world_.now().wall_ms - kZero;
    result.counters = world_.counters();
    result.checks = checker_.checks();
    result.evictions = checker_.evictions();
    result.needless = settled_.needless();
    result.submitted = operators_.acknowledged();
    result.started = started_;
    result.faults = mishaps_.counts();
    return result;
  }

  const Plan& plan_;
  const RunOptions options_;
  World world_;
  Books books_;
  Checker checker_;
  Network network_;
  Mishaps mishaps_;
  Operators operators_;
  Settled settled_;
  std::uint64_t started_ = 0;
  std::deque<std::pair<std::int64_t, std::string>> notes_;
};
}  // namespace

RunResult run(const Plan& plan, const RunOptions& options) { return Run(plan, options).run(); }

}  // namespace ebb::sim
