// One seed from its beginning to its end: chaos, heal, I13, drain, all units home.
//
// Deterministic: the same plan gives the same hash, in every build.
#pragma once
#include <array>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/soak/check.hpp"
#include "sim/soak/plan.hpp"

namespace ebb::sim {

enum class Checks { Every, Sampled };

struct RunOptions {
  Checks checks = Checks::Every;
  std::ostream* trace = nullptr;  // every message and decision
};
struct RunResult {
  std::optional<Violation> violation;
  std::vector<std::string> last_events;  // newest last, where there is a violation
  std::uint64_t hash = 0;
  std::int64_t virtual_ms = 0;
  Counters counters;
  std::uint64_t checks = 0;
  std::uint64_t evictions = 0;
  std::uint64_t needless = 0;  // I14: evictions whose claimant never came to run
  std::uint64_t submitted = 0, started = 0;
  std::array<std::uint64_t, kFaultKinds> faults{};
};

RunResult run(const Plan& plan, const RunOptions& options = {});

}  // namespace ebb::sim
