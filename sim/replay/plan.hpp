// What a replay plays: a cluster, a quota tree, and work from recorded traces.
//
// Units: GPUs in thousandths, times in milliseconds from the start of the replay. Errors: a refusal
// that names the file, the field and what is allowed. Format: docs/replay.md.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/scenario/file.hpp"

namespace ebb::sim {

struct ReplayJob {
  std::int64_t submit_ms = 0;
  std::int64_t run_ms = 0;
  std::int64_t gpus = 0;  // whole cards of the gang
  std::string quota;
  int priority = 1;
  v1::IdleMode idle = v1::IDLE_MODE_FORBIDDEN;
  bool run_time_known = false;  // told to the queue as the job's stated longest run
};
struct ReplayDemand {
  std::int64_t at_ms = 0;
  std::uint32_t replicas = 0;
};
struct ReplayService {
  std::string id;
  std::string quota;
  std::int64_t gpus = 0;  // of one replica
  int priority = 9;
  std::vector<ReplayDemand> demand;  // in order of time
  std::int64_t repeat_ms = 0;        // the curve begins anew after this; 0: it stays as it ends
};
struct ReplayPlan {
  Scenario cluster;  // nodes and quotas
  std::vector<ReplayJob> jobs;
  std::vector<ReplayService> services;
  std::int64_t checkpoint_every_ms = 0;  // of run time; 0: none
  std::int64_t restart_ms = 0;           // lost at every start after the first
  std::int64_t grace_ms = 0;             // 0: no checkpoint at eviction
  std::int64_t window_ms = 0;            // use is measured up to here; 0: until all jobs have ended
};

/// `traces`: directory that trace files are named from, where they are not beside the plan.
Result<ReplayPlan> read_replay_plan(const std::string& path, const std::string& traces);

/// Columns by their names in the first line. Rows with another number of fields are refused.
struct Table {
  std::vector<std::map<std::string, std::string>> rows;
};
Result<Table> read_csv(const std::string& path);
/// Standard Workload Format: fields submit, run, processors, queue.
Result<Table> read_swf(const std::string& path);

}  // namespace ebb::sim
