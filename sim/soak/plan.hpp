// What one seed means: a cluster, its work, what operators do, what breaks. Everything is drawn
// before the world begins, so a run can be repeated with parts left out (sim/soak/shrink.hpp).
//
// Unit: GPUs in thousandths, milliseconds from the beginning of the world.
// Source: RELIABILITY.md 3.2 and 3.3. Swarm: each class of faults is off in half of the seeds,
// because faults that are always there hide what needs quiet.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ebb/v1/quota.pb.h"
#include "sim/world/random.hpp"

namespace ebb::sim {

struct NodePlan {
  std::string name;
  std::string type;
  std::int64_t gpus = 0;  // whole cards
  std::uint32_t tree = 0;
};
struct QuotaPlan {
  v1::QuotaSpec spec;
  std::uint32_t tree = 0;
  std::uint32_t process = 0;
};
struct WorkPlan {
  std::int64_t at_ms = 0;
  v1::Product product = v1::PRODUCT_JOB;
  std::string quota;
  std::string pool;
  std::string type;        // empty: any
  std::uint32_t pods = 1;  // replicas of a service
  std::int64_t gpu_milli = 1000;
  int priority = 1;
  v1::IdleMode idle = v1::IDLE_MODE_FORBIDDEN;
  std::int64_t grace_ms = 0;
  std::int64_t runs_ms = 0;
  std::int64_t leaves_after_ms = 0;
  int exit_code = 0;
  std::uint32_t workspace = 0;
  std::string principal;
  bool allowed = true;  // what the workspace has to say to it
};

enum class Act {
  Stop,        // a workload, for good
  Scale,       // a service
  Remove,      // a workload
  Priority,    // of a workload
  ScaleQuota,  // two siblings in one change, or one down
  Policy,      // queue strategy of a quota
  Preemption,  // switches and filter of a quota
  Cordon,
  Uncordon,
  Drain,
  AddQuota,
  DropQuota,
};
struct ActPlan {
  std::int64_t at_ms = 0;
  Act what = Act::Stop;
  std::uint64_t luck = 0;  // chooses whom, when it happens
};

enum class Fault {
  Crash,  // a scheduler process, for `for_ms`
  CrashBeforeSave,
  CrashAfterSave,
  CrashAll,  // all schedulers
  Pause,     // wakes after `for_ms` as if nothing had been
  Zombie,    // taken over meanwhile, wakes after `for_ms`
  Slow,
  DiskFull,
  SlowDisk,
  ClockJump,
  CutBoth,
  CutOneWay,
  Flap,
  Halves,
  AgentCrash,
  AgentAtSave,
  AgentPause,
  NodeReboot,
  Rack,  // every agent of a third of the nodes
};
inline constexpr int kFaultKinds = static_cast<int>(Fault::Rack) + 1;
const char* name_of(Fault fault);
const char* name_of(Act act);

struct FaultPlan {
  std::int64_t at_ms = 0;
  std::int64_t for_ms = 0;
  Fault what = Fault::Crash;
  std::uint64_t luck = 0;
};

enum class Delay { None, Fixed, Exponential, HeavyTail };
/// Of the whole network; single links and kinds of messages are better or worse (network.hpp).
struct NetPlan {
  std::uint32_t drop_per_mille = 0;
  std::uint32_t double_per_mille = 0;
  std::uint32_t replay_per_mille = 0;
  Delay delay = Delay::None;
  std::int64_t delay_ms = 0;
};

struct Plan {
  std::uint64_t seed = 0;
  std::uint32_t schedulers = 1;
  std::vector<std::string> types;
  std::vector<NodePlan> nodes;
  std::vector<QuotaPlan> quotas;  // parents first
  std::vector<WorkPlan> works;
  std::vector<ActPlan> acts;
  std::vector<FaultPlan> faults;
  NetPlan net;
  std::int64_t chaos_ms = 0;
  std::int64_t grace_most_ms = 0;
};

Plan plan_of(std::uint64_t seed);

}  // namespace ebb::sim
