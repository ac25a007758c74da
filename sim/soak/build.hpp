// Writes a plan's cluster into a world's records, as if it had been set up before: tenant, pools,
// quotas that hold their guarantees, nodes that are bound, one workspace for each process. Says
// who lives in which process. Nothing is started.
#pragma once
#include "sim/soak/plan.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {

/// Names of the processes: scheduler i, agent of a node.
std::string scheduler_name(std::uint32_t i);
std::string agent_name(const std::string& node);
std::string workspace_of(std::uint32_t scheduler);

void build(const Plan& plan, World* world);
v1::WorkloadSpec spec_of(const WorkPlan& work, const std::string& id);
std::string address_of(const WorkPlan& work, const std::string& id);

}  // namespace ebb::sim
