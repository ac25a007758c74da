#include "scheduling/restart/restart.hpp"

#include <doctest/doctest.h>

using namespace ebb::scheduling;  // NOLINT

TEST_CASE("restart: what the end of a pod means, by policy, exit code and restarts left") {
  using enum RestartPolicy;
  using M = PodEndMeans;
  struct Row {
    const char* name;
    RestartPolicy policy;
    std::int32_t exit_code;
    std::uint32_t used, max;
    PodEndMeans means;
  };
  const Row rows[] = {
      {"a failure is final", Never, 1, 0, 3, M::Fail},
      {"a signal too", Never, 137, 0, 3, M::Fail},
      {"a failure restarts", OnFailure, 1, 0, 3, M::Restart},
      {"until none is left", OnFailure, 1, 3, 3, M::Fail},
      {"none was granted", OnFailure, 1, 0, 0, M::Fail},
      {"1 to 127 are the program's own fault", ExitCode, 1, 0, 3, M::Fail},
      {"127 still is", ExitCode, 127, 0, 3, M::Fail},
      {"128 is not", ExitCode, 128, 0, 3, M::Restart},
      {"killed for memory", ExitCode, 137, 0, 3, M::Restart},
      {"terminated", ExitCode, 143, 2, 3, M::Restart},
      {"killed once too often", ExitCode, 137, 3, 3, M::Fail},
      {"an unknown code says nothing against the program", ExitCode, -1, 0, 3, M::Restart},
      {"Always restarts after success", Always, 0, 0, 3, M::Restart},
      {"Always restarts after failure", Always, 2, 1, 3, M::Restart},
      {"Always succeeds in the end", Always, 0, 3, 3, M::Succeed},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const PodEnd end{.exit_code = row.exit_code, .is_chief = false, .all_others_ok = true};
    const RestartRules rules{.policy = row.policy,
                             .chief_decides = false,
                             .restarts_used = row.used,
                             .restarts_max = row.max};
    CHECK(decide_pod_end(end, rules) == row.means);
  }
}

TEST_CASE("restart: AllWorkers waits for all, ChiefWorker for the chief alone") {
  const auto means = [](bool chief_decides, bool is_chief, bool all_others_ok) {
    const RestartRules rules{.policy = RestartPolicy::Never,
                             .chief_decides = chief_decides,
                             .restarts_used = 0,
                             .restarts_max = 0};
    return decide_pod_end({.exit_code = 0, .is_chief = is_chief, .all_others_ok = all_others_ok},
                          rules);
  };
  CHECK(means(false, true, false) == PodEndMeans::Wait);
  CHECK(means(false, false, true) == PodEndMeans::Succeed);
  CHECK(means(true, true, false) == PodEndMeans::Succeed);
  CHECK(means(true, false, false) == PodEndMeans::Wait);
}

TEST_CASE("restart: policy names are read as the API spells them") {
  CHECK(parse_restart_policy("Always") == RestartPolicy::Always);
  CHECK(parse_restart_policy("OnFailure") == RestartPolicy::OnFailure);
  CHECK(parse_restart_policy("ExitCode") == RestartPolicy::ExitCode);
  CHECK(parse_restart_policy("Never") == RestartPolicy::Never);
}
