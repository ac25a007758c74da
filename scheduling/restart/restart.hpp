// What the end of a pod means for its job.
//
// Units: none. Errors: none; unknown policy names are refused by the gateway, here they count as
// Never. Source: api/NOTES.md "Jobs": RestartPolicy Always, Never, OnFailure, ExitCode (restart on
// 128 and above, that is on signals; fail on 1 to 127), SuccessPolicy AllWorkers or ChiefWorker. An
// unknown exit code (-1: the node rebooted or the shim was killed) says nothing against the
// program: it restarts under every policy.
#pragma once
#include <cstdint>
#include <string_view>

namespace ebb::scheduling {

enum class RestartPolicy { Never, Always, OnFailure, ExitCode };
RestartPolicy parse_restart_policy(std::string_view name);

enum class PodEndMeans { Wait, Succeed, Restart, Fail };

struct PodEnd {
  std::int32_t exit_code = 0;
  bool is_chief = false;       // rank 0 of Master or Chief, else rank 0
  bool all_others_ok = false;  // every other pod has ended with 0
};
struct RestartRules {
  RestartPolicy policy = RestartPolicy::Never;
  bool chief_decides = false;  // SuccessPolicy ChiefWorker
  std::uint32_t restarts_used = 0;
  std::uint32_t restarts_max = 0;
};
PodEndMeans decide_pod_end(const PodEnd& end, const RestartRules& rules);

}  // namespace ebb::scheduling
