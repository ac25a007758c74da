#include <doctest/doctest.h>

#include "tests/actors/workload_bench.hpp"

using namespace ebb::test;  // NOLINT

namespace {
v1::Reply stop(WorkloadBench& bench) {
  v1::WorkloadCommand command;
  command.set_stop(true);
  return bench.command(command);
}
v1::Reply start(WorkloadBench& bench) {
  v1::WorkloadCommand command;
  command.set_start(true);
  return bench.command(command);
}
}  // namespace

TEST_CASE("instance: waits, runs, stops and starts again with a new attempt") {
  WorkloadBench bench(an_instance());
  bench.places_max = 0;
  bench.run_ms(500);
  CHECK(bench.status() == "Queuing");
  bench.places_max = 1;
  CHECK(bench.reaches("Running"));
  CHECK_FALSE(start(bench).has_refusal());  // it runs already
  bench.leaves_after_ms = 3'000;
  CHECK_FALSE(stop(bench).has_refusal());
  CHECK(bench.reaches("Stopping"));
  CHECK(start(bench).refusal().message().find("still stopping") != std::string::npos);
  CHECK(bench.reaches("Stopped"));
  CHECK(bench.holding() == 0);
  CHECK_FALSE(stop(bench).has_refusal());
  bench.run_ms(2'000);
  CHECK(bench.status() == "Stopped");
  CHECK_FALSE(start(bench).has_refusal());
  CHECK(bench.reaches("Running"));
  CHECK(bench.demand().attempt() == 2);
  CHECK(bench.broken.empty());
}

TEST_CASE("instance: whose process ends has failed, and can be started again") {
  WorkloadBench bench(an_instance());
  REQUIRE(bench.reaches("Running"));
  bench.pod_exits(0, 0, 9);
  CHECK(bench.reaches("Failed"));
  CHECK(bench.saved().reason_message().find("exit code 9") != std::string::npos);
  bench.run_ms(2'000);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_GONE);
  CHECK_FALSE(start(bench).has_refusal());
  CHECK(bench.reaches("Running"));
}

TEST_CASE("instance: preempted it waits again") {
  WorkloadBench bench(an_instance());
  REQUIRE(bench.reaches("Running"));
  bench.places_max = 0;
  bench.preempt(0, v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION, false);
  CHECK(bench.reaches("Queuing"));
  CHECK(bench.saved().sub_status() == "Resource Preempted");
  bench.places_max = 1;
  CHECK(bench.reaches("Running"));
  CHECK(bench.saved().sub_status().empty());
}

TEST_CASE("instance: is deleted in any state, once nothing of it runs") {
  v1::WorkloadCommand remove;
  remove.set_remove(true);
  WorkloadBench running(an_instance());
  REQUIRE(running.reaches("Running"));
  running.command(remove);
  CHECK_FALSE(running.ended);
  CHECK(start(running).has_refusal());
  CHECK(running.run_until([&] { return running.ended; }));
  CHECK(running.holding() == 0);
  WorkloadBench waiting(an_instance());
  waiting.places_max = 0;
  waiting.run_ms(100);
  waiting.command(remove);
  CHECK(waiting.run_until([&] { return waiting.ended; }, 10'000));
}

TEST_CASE("instance: one that can never fit fails at once and says why") {
  WorkloadBench bench(an_instance());
  bench.places_max = 0;
  bench.never(0, "QuotaExceeded", "no node has 9 GPUs");
  CHECK(bench.reaches("Failed", 1'000));
  CHECK(bench.saved().reason_message() == "no node has 9 GPUs");
}

TEST_CASE("instance: dies after any step and goes on from its record") {
  const auto life = [](WorkloadBench& bench) {
    if (!bench.reaches("Running")) return false;
    bench.preempt(0, v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION, true);
    return bench.run_until([&] { return bench.demand().attempt() == 2; }) &&
           bench.reaches("Running") && bench.broken.empty();
  };
  WorkloadBench undisturbed(an_instance());
  REQUIRE(life(undisturbed));
  for (int step = 1; step <= undisturbed.steps; ++step) {
    CAPTURE(step);
    WorkloadBench bench(an_instance());
    bench.die_after_step = step;
    CHECK(life(bench));
  }
}
