// ebb-sim: the simulated world as a program.
//   ebb-sim scenario [--trace] FILE...     plays each file, one JSON line a file
//   ebb-sim soak --seeds N [--first S] [--checks every|sampled] [--jobs J] [--planted NAME]
//   ebb-sim seed S [--shrink] [--trace] [--without PARTS] [--planted NAME]
//   ebb-sim replay [--traces DIR] [--json FILE] [--html FILE] [--quiet] PLAN
#include <iostream>

#include "sim/commands.hpp"

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const std::vector<std::string> arguments(argv + std::min(argc, 2), argv + argc);
  if (command == "scenario") return ebb::sim::scenario_command(arguments);
  if (command == "soak") return ebb::sim::soak_command(arguments);
  if (command == "seed") return ebb::sim::seed_command(arguments);
  if (command == "replay") return ebb::sim::replay_command(arguments);
  std::cerr << "usage: ebb-sim scenario [--trace] FILE...\n"
               "       ebb-sim soak --seeds N [--first S] [--checks every|sampled] [--jobs J]"
               " [--planted NAME]\n"
               "       ebb-sim seed S [--shrink] [--trace] [--without PARTS] [--planted NAME]\n"
               "       ebb-sim replay [--traces DIR] [--json FILE] [--html FILE] [--quiet] PLAN\n";
  return 2;
}
