// The soak itself: a seed is one course of events, and parts of a plan can be left out by word.
#include <doctest/doctest.h>

#include "sim/soak/run.hpp"
#include "sim/soak/shrink.hpp"

using namespace ebb::sim;

TEST_CASE("soak: the same seed gives the same course, another seed another") {
  for (const std::uint64_t seed : {1, 5, 6}) {
    const RunResult first = run(plan_of(seed)), again = run(plan_of(seed));
    CHECK(first.hash == again.hash);
    CHECK(first.counters.steps == again.counters.steps);
    CHECK(first.hash != run(plan_of(seed + 100)).hash);
  }
}

TEST_CASE("soak: what is left out of a plan is written as one word and read back") {
  Without without;
  without.works = {0, 1, 2, 7};
  without.faults = {3};
  without.net = {"drop"};
  CHECK(text_of(without) == "works=0-2,7;faults=3;net=drop");
  const auto parsed = parse_without("works=0-2,7;faults=3;net=drop");
  REQUIRE(parsed);
  CHECK(parsed->works == without.works);
  CHECK(parsed->faults == without.faults);
  CHECK(parsed->net == without.net);
  for (const char* bad : {"works", "works=a", "works=1-", "net=rain", "jobs=1"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_without(bad));
  }
}

TEST_CASE("soak: a plan keeps what the fault matrix bounds") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    const Plan plan = plan_of(seed);
    CHECK(plan.schedulers >= 1);
    CHECK(plan.schedulers <= 4);
    CHECK(plan.nodes.size() >= 2);
    CHECK(plan.nodes.size() <= 64);
    CHECK(plan.quotas.size() <= 24);
    CHECK(plan.net.drop_per_mille <= 500);
    for (const FaultPlan& fault : plan.faults) CHECK(fault.at_ms <= plan.chaos_ms);
  }
}
