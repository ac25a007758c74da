// Plays a scenario with the real machines in virtual time and says what was not as expected.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "sim/scenario/file.hpp"

namespace ebb::sim {

struct Verdict {
  std::vector<std::string> failed;
  std::uint64_t hash = 0;
};
/// `trace`: where every decision and alarm goes, one line each; null: nowhere.
Verdict play(const Scenario& scenario, std::uint64_t seed, std::ostream* trace = nullptr);

}  // namespace ebb::sim
