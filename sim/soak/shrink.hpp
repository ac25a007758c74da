// Makes a failing plan small: leaves out faults, acts, work and kinds of network trouble for as
// long as the same invariant is broken.
//
// What was left out is written as one word, "works=3-5,9;faults=0;net=drop", so that the small run
// can be repeated: `ebb-sim seed S --without WORD`.
#pragma once
#include <set>
#include <string>

#include "base/result.hpp"
#include "sim/soak/run.hpp"

namespace ebb::sim {

struct Without {
  std::set<std::size_t> works, acts, faults;
  std::set<std::string> net;  // drop, double, replay, delay
};
Result<Without> parse_without(const std::string& text);
std::string text_of(const Without& without);
Plan plan_without(const Plan& plan, const Without& without);

/// `invariant`: as it failed with nothing left out.
Without shrink(const Plan& plan, const std::string& invariant);

}  // namespace ebb::sim
