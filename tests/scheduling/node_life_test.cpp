#include "scheduling/node/node_life.hpp"

#include <doctest/doctest.h>
#include <rapidcheck.h>

using namespace ebb::scheduling;  // NOLINT

TEST_CASE("node life: three missed beats make a node suspect, node_lost_after makes it lost") {
  struct Row {
    const char* name;
    std::int64_t silent_ms, lost_after_ms;
    NodeHealth health;
  };
  const Row rows[] = {
      {"just heard", 0, 300'000, NodeHealth::Ready},
      {"two beats missed", 4'500, 300'000, NodeHealth::Ready},
      {"three beats missed and a second for the way", 7'000, 300'000, NodeHealth::Suspect},
      {"shortly before it is lost", 299'999, 300'000, NodeHealth::Suspect},
      {"lost", 300'000, 300'000, NodeHealth::Lost},
      {"a setting below three beats is lost at once when suspect", 7'000, 1'000, NodeHealth::Lost},
      {"and not before", 6'000, 1'000, NodeHealth::Ready},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(decide_node_health(row.silent_ms, row.lost_after_ms) == row.health);
  }
}

TEST_CASE("node life: a job is dead by its own hand after stop_after x 1.05 + grace + 10 s") {
  struct Row {
    const char* name;
    std::int64_t silent_ms, stop_after_ms, grace_ms;
    bool dead;
  };
  const Row rows[] = {
      {"ten minutes and no grace: 640 s", 640'000, 600'000, 0, true},
      {"a millisecond earlier", 639'999, 600'000, 0, false},
      {"its grace is waited for", 669'999, 600'000, 30'000, false},
      {"and then it is over", 670'000, 600'000, 30'000, true},
      {"without a dead-man it is never concluded", 1'000'000'000, 0, 0, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(is_dead_by_own_hand(row.silent_ms, row.stop_after_ms, row.grace_ms) == row.dead);
  }
}

TEST_CASE("node life: the node stops a pod at stop_after and not before") {
  CHECK_FALSE(must_stop(599'999, 600'000));
  CHECK(must_stop(600'000, 600'000));
  CHECK_FALSE(must_stop(1'000'000'000, 0));
}

TEST_CASE("node life: whatever the settings, a pod has been killed before it counts as dead") {
  rc::check([] {
    const auto stop_after = *rc::gen::inRange<std::int64_t>(5'000, 86'400'001);
    const auto grace = *rc::gen::inRange<std::int64_t>(0, 3'600'001);
    // The node's clock may be slow by up to 5%, the shim waits for its agent first and looks once a
    // second.
    const auto slow_per_mille = *rc::gen::inRange<std::int64_t>(0, 51);
    const std::int64_t on_node = stop_after + kShimPatienceMs + 1'000;
    const std::int64_t real = on_node + stop_after * slow_per_mille / 1'000 + grace;
    RC_ASSERT(real < dead_after_ms(stop_after, grace));
  });
}

TEST_CASE("node life: a drain moves idle work and jobs, and keeps what a rule protects") {
  struct Row {
    const char* name;
    DrainFacts facts;
    bool force, moves;
    const char* why;
  };
  const Row rows[] = {
      {"a job that has run for long", {.ran_ms = 700'000, .min_run_ms = 600'000}, false, true, ""},
      {"a job of a quota without a least run", {.ran_ms = 1'000}, false, true, ""},
      {"a job within its least run",
       {.ran_ms = 120'000, .min_run_ms = 600'000},
       false,
       false,
       "has run for 120 of the 600 s that its quota promises it"},
      {"one that only starts",
       {.starting = true, .min_run_ms = 600'000},
       false,
       false,
       "has run for 0 of the 600 s that its quota promises it"},
      {"idle work has no such promise",
       {.idle = true, .ran_ms = 1'000, .min_run_ms = 600'000},
       false,
       true,
       ""},
      {"a development instance",
       {.instance = true, .ran_ms = 9'000'000},
       false,
       false,
       "is a development instance"},
      {"force moves all", {.instance = true, .ran_ms = 1, .min_run_ms = 600'000}, true, true, ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const DrainAnswer answer = decide_drain(row.facts, row.force);
    CHECK(answer.moves == row.moves);
    CHECK(answer.why == row.why);
  }
}
