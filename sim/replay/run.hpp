// Plays a replay plan with the real machines in virtual time, and measures.
//
// Units: as named; GPU-hours are whole GPUs times hours.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "sim/replay/plan.hpp"

namespace ebb::sim {

struct JobOutcome {
  std::int64_t started_ms = -1;  // first start; -1: never
  std::int64_t ended_ms = -1;    // -1: it had not ended when the replay was cut off
  std::uint32_t evictions = 0;
  double lost_gpu_hours = 0;  // work after its last checkpoint, and restarts
};
/// What held GPUs, sampled.
struct Sample {
  std::int64_t at_ms = 0;
  std::map<std::string, double> in_quota;  // GPUs of training, by quota
  double idle = 0;                         // GPUs of training beyond its quota
  double serving = 0;                      // GPUs of services
  double demand = 0;                       // GPUs that services want
  std::size_t waiting = 0;                 // jobs submitted and not running
};
struct ReplayOutcome {
  std::vector<JobOutcome> jobs;  // as in the plan
  std::vector<Sample> samples;
  double capacity_gpus = 0;
  double window_hours = 0;
  double serving_gpu_hours = 0;   // within the window, as the two below
  double training_gpu_hours = 0;  // held, work lost included
  double lost_gpu_hours = 0;
  double wanted_gpu_hours = 0;            // of services
  double unmet_gpu_hours = 0;             // of it, not running at that moment
  std::vector<double> step_seconds;       // from a rise of demand until all its replicas ran
  std::uint64_t messages = 0, steps = 0;  // of the machines
  std::uint64_t hash = 0;                 // of everything said: the same at every run
  bool finished = false;
};
/// `progress`: told the virtual time now and then; may be empty.
ReplayOutcome run_replay(const ReplayPlan& plan,
                         const std::function<void(std::int64_t at_ms)>& progress);

/// The figures that benchmarks compare: means and quantiles over all jobs, use, evictions.
Json summary_of(const ReplayPlan& plan, const ReplayOutcome& outcome);

}  // namespace ebb::sim
