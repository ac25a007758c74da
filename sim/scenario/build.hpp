// Writes the state of `start` into a world's records, as if it had grown there, and gives every
// node its running processes. Nothing is started.
#pragma once
#include <string>
#include <vector>

#include "sim/scenario/file.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {

/// Returns the workloads of `start` that are left over and wait, in order.
Result<std::vector<std::string>> build_start(const Scenario& scenario, std::int64_t zero_wall_ms,
                                             World* world);
v1::WorkloadSpec spec_of(const WorkloadCase& workload, const Scenario& scenario,
                         std::int64_t created_wall_ms);

}  // namespace ebb::sim
