// The commands of ebb-sim. Each returns the exit code: 0 good, 1 something failed, 2 bad usage.
#pragma once
#include <string>
#include <vector>

namespace ebb::sim {

int scenario_command(const std::vector<std::string>& arguments);
int soak_command(const std::vector<std::string>& arguments);
int seed_command(const std::vector<std::string>& arguments);
int replay_command(const std::vector<std::string>& arguments);

}  // namespace ebb::sim
