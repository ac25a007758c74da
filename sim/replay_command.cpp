// ebb-sim replay: recorded work on a cluster and quota tree of one's choice.
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "sim/commands.hpp"
#include "sim/replay/report.hpp"
#include "sim/replay/run.hpp"

namespace ebb::sim {
namespace {
constexpr const char* kUsage =
    "usage: ebb-sim replay [--traces DIR] [--json FILE] [--html FILE] [--quiet] PLAN\n";
}  // namespace

int replay_command(const std::vector<std::string>& arguments) {
  const char* set = std::getenv("EBB_TRACES");
  std::string traces = set == nullptr ? "../shared/traces" : set;
  std::string plan_path, json_path, html_path;
  bool quiet = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    std::string* value = word == "--traces" ? &traces
                         : word == "--json" ? &json_path
                         : word == "--html" ? &html_path
                                            : nullptr;
    if (value != nullptr && i + 1 < arguments.size()) {
      *value = arguments[++i];
    } else if (word == "--quiet") {
      quiet = true;
    } else if (plan_path.empty() && !word.starts_with("-")) {
      plan_path = word;
    } else {
      std::cerr << kUsage;
      return 2;
    }
  }
  if (plan_path.empty()) {
    std::cerr << kUsage;
    return 2;
  }
  const auto plan = read_replay_plan(plan_path, traces);
  if (!plan) {
    std::cerr << "ebb-sim replay: " << plan.refusal().message << '\n';
    return 2;
  }
  const ReplayOutcome outcome = run_replay(*plan, [&](std::int64_t at_ms) {
    if (!quiet) std::cerr << "\rday " << at_ms / 86'400'000 << std::flush;
  });
  if (!quiet) std::cerr << '\n';
  const Json summary = summary_of(*plan, outcome);
  std::cout << summary.dump(2) << '\n';
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << report_json(*plan, outcome, summary).dump() << '\n';
    if (!file.flush()) {
      std::cerr << "ebb-sim replay: --json " << json_path << " cannot be written\n";
      return 1;
    }
  }
  if (!html_path.empty()) {
    if (const auto written = write_html(html_path, *plan, outcome, summary); !written) {
      std::cerr << "ebb-sim replay: " << written.refusal().message << '\n';
      return 1;
    }
  }
  return outcome.finished ? 0 : 1;
}

}  // namespace ebb::sim
