#include "scheduling/restart/restart.hpp"

namespace ebb::scheduling {

RestartPolicy parse_restart_policy(std::string_view name) {
  if (name == "Always") return RestartPolicy::Always;
  if (name == "OnFailure") return RestartPolicy::OnFailure;
  if (name == "ExitCode") return RestartPolicy::ExitCode;
  return RestartPolicy::Never;
}

PodEndMeans decide_pod_end(const PodEnd& end, const RestartRules& rules) {
  const bool restarts_left = rules.restarts_used < rules.restarts_max;
  if (end.exit_code == 0) {
    if (rules.chief_decides && end.is_chief) return PodEndMeans::Succeed;
    if (rules.policy == RestartPolicy::Always && restarts_left) return PodEndMeans::Restart;
    return end.all_others_ok ? PodEndMeans::Succeed : PodEndMeans::Wait;
  }
  // Not the program's doing: its node rebooted, or nobody knows how it ended.
  if (end.exit_code < 0) return PodEndMeans::Restart;
  if (!restarts_left) return PodEndMeans::Fail;
  switch (rules.policy) {
    case RestartPolicy::Always:
    case RestartPolicy::OnFailure:
      return PodEndMeans::Restart;
    case RestartPolicy::ExitCode:
      return end.exit_code >= 128 ? PodEndMeans::Restart : PodEndMeans::Fail;
    case RestartPolicy::Never:
      break;
  }
  return PodEndMeans::Fail;
}

}  // namespace ebb::scheduling
