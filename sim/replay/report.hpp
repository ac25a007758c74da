// What a replay leaves for people and programs: one JSON document, and one page that needs nothing
// else, with charts by Chart.js (Debian's libjs-chart.js, read when the page is written).
#pragma once
#include <string>

#include "sim/replay/run.hpp"

namespace ebb::sim {

Json report_json(const ReplayPlan& plan, const ReplayOutcome& outcome, const Json& summary);
Result<Ok> write_html(const std::string& path, const ReplayPlan& plan, const ReplayOutcome& outcome,
                      const Json& summary);

}  // namespace ebb::sim
