// Many seeds, spread over processes, and the report of what they did.
//
// Each seed runs in a child process: one that stops by an assertion is a failing seed like any
// other, and the rest goes on.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

#include "sim/soak/run.hpp"

namespace ebb::sim {

struct ManyOptions {
  std::uint64_t seeds = 100;
  std::uint64_t first = 1;
  unsigned jobs = 1;
  std::uint64_t failures_most = 20;  // then it stops
  Checks checks = Checks::Every;
  std::string planted;
};

/// Returns how many seeds failed.
std::uint64_t soak_many(const ManyOptions& options, std::ostream& out);
/// The replay line, what was broken, and what came before it.
void print_failure(std::ostream& out, std::uint64_t seed, const std::string& without,
                   const RunResult& result);

}  // namespace ebb::sim
