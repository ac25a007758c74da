// Why one workload may not take another's GPUs, and when a waiting one can be expected to start.
//
// Units: GPUs in thousandths, milliseconds of the cluster's clock. Errors: none. Source: DESIGN
// sections 4 and 5; the rules are those by which quotas ask for plans (actors/quota) and the pool
// picks victims (scheduling/placement): here they are only said in words.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ebb::scheduling {

/// Where a holder lies, seen from the quota of the one that wants its GPUs.
enum class Relation { SameQuota, Below, Beside, Elsewhere };

struct TakerRules {
  std::string quota = {};  // its name
  int priority = 1;
  bool below = false;  // EnableSubQuotaPreemption
  std::vector<std::string> below_products = {};
  int below_priority_at_most = 0;
  bool same_level = false;  // EnableSelfQuotaPreemption
  std::vector<int> preemptors = {};
  std::vector<int> preempted = {};
  std::vector<std::string> same_level_products = {};
};
struct HeldBy {
  Relation relation = Relation::Elsewhere;
  std::string quota = {};  // its name
  std::string product = {};
  int priority = 1;
  bool idle = false;
  bool leaving = false;
  std::int64_t ran_ms = 0;
  std::int64_t min_run_ms = 0;
};
/// The rule that keeps the holder where it is; empty: it may be taken once the taker is covered.
std::string why_not_taken(const TakerRules& taker, const HeldBy& holder);

/// What taking a workload costs.
struct VictimCost {
  bool idle = false;
  int priority = 1;
  std::int64_t lost_gpu_s = 0;  // GPU-seconds since its last checkpoint
};
/// The order in which victims are preferred: class, priority, loss.
bool cheaper(const VictimCost& a, const VictimCost& b);
/// Why this one was chosen and what the others that could have been taken would have cost.
std::string why_this_victim(const VictimCost& chosen, const std::vector<VictimCost>& others);

/// GPUs that come free at a known time: a job reaches its stated longest run, a service is scaled
/// down by its clock.
struct Release {
  std::int64_t at_ms = 0;
  std::int64_t gpu_milli = 0;
  std::string what = {};  // "train-7 reaches its longest run"
};
struct Forecast {
  std::optional<std::int64_t> at_ms;
  std::vector<std::string> assumptions = {};
};
/// When `free` and what is released reach `needed` and what those before it in the queue need.
Forecast forecast_start(std::int64_t now_ms, std::int64_t free_milli, std::int64_t needed_milli,
                        std::int64_t needed_before_milli, std::vector<Release> releases);

}  // namespace ebb::scheduling
