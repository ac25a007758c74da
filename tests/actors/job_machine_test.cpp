#include <doctest/doctest.h>

#include <algorithm>

#include "tests/actors/workload_bench.hpp"

using namespace ebb::test;  // NOLINT

namespace {

v1::WorkloadCommand stop() {
  v1::WorkloadCommand command;
  command.set_stop(true);
  return command;
}
v1::WorkloadCommand remove_it() {
  v1::WorkloadCommand command;
  command.set_remove(true);
  return command;
}
auto runs_for(std::int64_t ms, int exit_code = 0) {
  return [=](std::uint32_t, std::uint32_t, std::uint32_t) { return std::pair{ms, exit_code}; };
}
bool has_event(const v1::WorkloadRecord& record, const std::string& reason) {
  return std::any_of(record.events().begin(), record.events().end(),
                     [&](const v1::WorkloadEvent& event) { return event.reason() == reason; });
}
std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("job: queues, binds, runs and succeeds, and its quota hears that it is gone") {
  WorkloadBench bench(a_job(2));
  bench.places_max = 0;
  CHECK(bench.status() == "Queuing");
  bench.run_ms(1'000);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_WAITING);
  CHECK(bench.demand().attempt() == 1);
  CHECK(bench.demand().need().priority() == 3);
  bench.places_max = 1;
  bench.program = runs_for(5'000);
  CHECK(bench.reaches("EnvPreparing"));
  CHECK(bench.reaches("Running"));
  CHECK(bench.running() == 2);
  bench.run_ms(1'000);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_RUNNING);
  CHECK(bench.demand().held_class() == v1::CLAIM_CLASS_IN_QUOTA);
  CHECK(bench.use().places_size() == 2);
  CHECK(bench.reaches("Succeeded"));
  bench.run_ms(5'000);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_GONE);
  CHECK(bench.use().phase() == v1::CLAIM_PHASE_GONE);
  CHECK(bench.holding() == 0);
  CHECK(all(bench.broken) == "");
}

TEST_CASE("job: ranks go over the roles in order, and all know the first pod's node") {
  v1::WorkloadSpec spec = a_job(1);
  spec.mutable_roles(0)->set_role("Master");
  v1::RoleSpec* worker = spec.add_roles();
  worker->set_role("Worker");
  worker->set_pods(2);
  worker->mutable_launch()->add_command("work");
  WorkloadBench bench(spec);
  REQUIRE(bench.reaches("Running"));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const v1::LaunchSpec& launch = bench.order(0, rank)->launch();
    CHECK(launch.rank() == rank);
    CHECK(launch.world_size() == 3);
    CHECK(launch.master_node() == "n0");
    CHECK(launch.role() == (rank == 0 ? "Master" : "Worker"));
    CHECK(launch.command(0) == (rank == 0 ? "train" : "work"));
  }
}

TEST_CASE("job: preempted by its quota or by the pool it waits again with its place in time") {
  for (const bool by_pool : {false, true}) {
    CAPTURE(by_pool);
    WorkloadBench bench(a_job(2));
    REQUIRE(bench.reaches("Running"));
    const std::int64_t since = bench.demand().since_wall_ms();
    bench.places_max = 0;
    bench.leaves_after_ms = 10'000;
    bench.preempt(0, v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION, by_pool);
    bench.run_ms(1'000);
    CHECK(bench.order(0, 0)->want() == v1::POD_WANT_GONE);
    CHECK(bench.order(0, 0)->grace_period_ms() == 30'000);
    CHECK(bench.order(0, 0)->reason() == v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION);
    CHECK(bench.demand().phase() == v1::CLAIM_PHASE_LEAVING);
    CHECK(bench.demand().attempt() == 1);
    REQUIRE(bench.reaches("Queuing"));
    bench.run_ms(1'000);
    CHECK(bench.holding() == 0);
    CHECK(bench.saved().sub_status() == "Resource Preempted");
    CHECK(bench.demand().attempt() == 2);
    CHECK(bench.demand().phase() == v1::CLAIM_PHASE_WAITING);
    CHECK(bench.demand().since_wall_ms() == since);
    REQUIRE(bench.saved().history_size() == 1);
    CHECK(bench.saved().history(0).outcome() == "Resource Preempted");
    CHECK(bench.saved().history(0).attempt() == 1);
    CHECK(bench.saved().history(0).pods_size() == 2);
    CHECK(bench.saved().history(0).claim_class() == v1::CLAIM_CLASS_IN_QUOTA);
    CHECK(bench.saved().restarts_used() == 0);
    bench.places_max = 1;
    CHECK(bench.reaches("Running"));
    CHECK(bench.saved().sub_status().empty());
    CHECK(all(bench.broken) == "");
  }
}

TEST_CASE("job: one that ended well while it was told to leave has succeeded") {
  WorkloadBench bench(a_job(2));
  bench.program = runs_for(5'000);
  REQUIRE(bench.reaches("Running"));
  bench.silent = {"n0", "n1"};  // the order to leave does not arrive before the end
  bench.preempt(0, v1::PREEMPT_REASON_IDLE_RECLAIMED, true);
  bench.run_ms(7'000);
  bench.silent.clear();
  CHECK(bench.reaches("Succeeded", 2'000));  // a second attempt would take five seconds
  bench.run_ms(5'000);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_GONE);
  CHECK(bench.running() == 0);
}

TEST_CASE("job: an idle one that its quota comes to cover changes its class and nothing else") {
  v1::WorkloadSpec spec = a_job(2);
  spec.set_idle(v1::IDLE_MODE_ACCEPTED);
  WorkloadBench bench(spec);
  bench.place_class = v1::CLAIM_CLASS_IDLE;
  REQUIRE(bench.reaches("Running"));
  CHECK(bench.use().claim_class() == v1::CLAIM_CLASS_IDLE);
  bench.upgrade(0);
  bench.run_ms(3'000);
  CHECK(bench.status() == "Running");
  CHECK(bench.running() == 2);
  CHECK(bench.demand().attempt() == 1);
  CHECK(bench.demand().held_class() == v1::CLAIM_CLASS_IN_QUOTA);
  CHECK(bench.use().claim_class() == v1::CLAIM_CLASS_IN_QUOTA);
  CHECK(bench.saved().history_size() == 0);
  CHECK(has_event(bench.saved(), "Upgraded"));
}

TEST_CASE("job: a refused pod releases all, names the node, and asks more slowly each time") {
  WorkloadBench bench(a_job(2));
  bench.refusing = {"n1"};
  bench.run_ms(400);
  CHECK(bench.demand().attempt() >= 2);
  CHECK(bench.running() == 0);
  REQUIRE(bench.run_until([&] { return bench.asked_at_ms.size() >= 7; }));
  REQUIRE(bench.use().refused_by_size() > 0);
  CHECK(bench.use().refused_by(0) == "n1");
  // The second asks at once; from then on 1, 2, 4, 8 seconds pass at least.
  const auto gap = [&](std::size_t i) { return bench.asked_at_ms[i + 1] - bench.asked_at_ms[i]; };
  CHECK(gap(0) < 1'000);
  CHECK(gap(1) >= 1'000);
  CHECK(gap(2) >= 2'000);
  CHECK(gap(3) >= 4'000);
  CHECK(gap(4) >= 8'000);
  CHECK(bench.use().refused_by_size() <= 2);
  bench.refusing.clear();
  CHECK(bench.reaches("Running"));
  bench.run_ms(3'000);
  CHECK(bench.use().refused_by_size() == 0);
  CHECK(bench.saved().restarts_used() == 0);
  CHECK(all(bench.broken) == "");
}

TEST_CASE("job: refusals for a long time hold it back for a minute at most") {
  WorkloadBench bench(a_job(1));
  bench.refusing = {"n0"};
  bench.run_ms(600'000);
  const auto& asked = bench.asked_at_ms;
  REQUIRE(asked.size() > 8);
  CHECK(asked.back() - asked[asked.size() - 2] >= 60'000);
  CHECK(asked.back() - asked[asked.size() - 2] < 62'000);
}

TEST_CASE("job: a failed pod takes the gang down; restarts are counted, then the job fails") {
  v1::WorkloadSpec spec = a_job(2);
  spec.mutable_roles(0)->set_restart_policy("OnFailure");
  spec.set_restarts_max(2);
  WorkloadBench bench(spec);
  bench.program = [](std::uint32_t, std::uint32_t pod, std::uint32_t) {
    return std::pair{std::int64_t{2'000}, pod == 1 ? 3 : 0};
  };
  REQUIRE(bench.reaches("Restarting"));
  CHECK(bench.saved().restarts_used() == 1);
  REQUIRE(bench.reaches("Failed"));
  CHECK(bench.saved().restarts_used() == 2);
  CHECK(bench.demand().attempt() == 3);
  CHECK(bench.saved().reason_code() == "JobFailed");
  CHECK(bench.saved().reason_message().find("exit code 3") != std::string::npos);
  bench.run_ms(5'000);
  CHECK(bench.holding() == 0);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_GONE);
  CHECK(all(bench.broken) == "");
}

TEST_CASE("job: with ChiefWorker the chief's end ends the others") {
  v1::WorkloadSpec spec = a_job(3);
  spec.set_success_policy("ChiefWorker");
  WorkloadBench bench(spec);
  REQUIRE(bench.reaches("Running"));
  bench.pod_exits(0, 1, 0);
  bench.run_ms(2'000);
  CHECK(bench.status() == "Running");
  bench.pod_exits(0, 0, 0);
  CHECK(bench.reaches("Succeeded"));
  bench.run_ms(2'000);
  CHECK(bench.running() == 0);
}

TEST_CASE("job: one that can never fit fails at once and says why") {
  WorkloadBench bench(a_job(2));
  bench.places_max = 0;
  bench.never(0, "QuotaExceeded", "quota q11 can hold 8 GPUs, the gang needs 16");
  REQUIRE(bench.reaches("Failed", 1'000));
  CHECK(bench.saved().reason_code() == "QuotaExceeded");
  CHECK(bench.saved().reason_message() == "quota q11 can hold 8 GPUs, the gang needs 16");
  bench.run_ms(1'000);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_GONE);
}

TEST_CASE("job: why it waits is part of what it says of itself") {
  WorkloadBench bench(a_job(2));
  bench.places_max = 0;
  bench.wait_reason(0, v1::WAIT_CODE_QUOTA, "quota q11 has 1 of 8 GPUs free, the gang needs 2");
  bench.run_ms(500);
  CHECK(bench.describe().wait().sentence() == "quota q11 has 1 of 8 GPUs free, the gang needs 2");
  bench.places_max = 1;
  REQUIRE(bench.reaches("Running"));
  CHECK_FALSE(bench.describe().has_wait());
}

TEST_CASE("job: stop works in every state and lets nothing run on") {
  SUBCASE("while it waits") {
    WorkloadBench bench(a_job(2));
    bench.places_max = 0;
    bench.run_ms(500);
    CHECK_FALSE(bench.command(stop()).has_refusal());
    CHECK(bench.reaches("Stopped"));
  }
  SUBCASE("while it runs") {
    WorkloadBench bench(a_job(2));
    REQUIRE(bench.reaches("Running"));
    CHECK_FALSE(bench.command(stop()).has_refusal());
    CHECK(bench.status() == "Stopping");
    CHECK_FALSE(bench.command(stop()).has_refusal());
    CHECK(bench.reaches("Stopped"));
    CHECK(bench.holding() == 0);
    CHECK_FALSE(bench.command(stop()).has_refusal());
  }
  SUBCASE("while it is held back after refusals") {
    WorkloadBench bench(a_job(2));
    bench.refusing = {"n1"};
    bench.run_ms(20'000);
    CHECK_FALSE(bench.command(stop()).has_refusal());
    CHECK(bench.reaches("Stopped", 1'000));
  }
  SUBCASE("while it leaves for another") {
    WorkloadBench bench(a_job(2));
    REQUIRE(bench.reaches("Running"));
    bench.preempt(0, v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION, true);
    bench.leaves_after_ms = 5'000;
    bench.run_ms(500);
    bench.command(stop());
    CHECK(bench.reaches("Stopped"));
    bench.run_ms(20'000);
    CHECK(bench.status() == "Stopped");
    CHECK(bench.running() == 0);
  }
}

TEST_CASE("job: commands that make no sense are refused by name") {
  WorkloadBench bench(a_job(1));
  REQUIRE(bench.reaches("Running"));
  CHECK(bench.command(remove_it()).refusal().http_status() == 409);
  v1::WorkloadCommand scale;
  scale.set_scale(3);
  CHECK(bench.command(scale).has_refusal());
  v1::WorkloadCommand update;
  update.mutable_update()->set_priority(10);
  CHECK(bench.command(update).refusal().message().find("1 to 9") != std::string::npos);
  CHECK(bench.command(v1::WorkloadCommand()).has_refusal());
  update.mutable_update()->set_priority(7);
  CHECK_FALSE(bench.command(update).has_refusal());
  bench.run_ms(500);
  CHECK(bench.demand().need().priority() == 7);
  bench.pod_exits(0, 0, 0);
  REQUIRE(bench.reaches("Succeeded"));
  const v1::Reply late = bench.command(stop());
  CHECK(late.refusal().message().find("Succeeded") != std::string::npos);
  bench.run_ms(5'000);
  CHECK_FALSE(bench.command(remove_it()).has_refusal());
  CHECK(bench.ended);
}

TEST_CASE("job: runs no longer than it was allowed to") {
  v1::WorkloadSpec spec = a_job(2);
  spec.set_run_at_most_ms(30'000);
  WorkloadBench bench(spec);
  REQUIRE(bench.reaches("Running"));
  bench.run_ms(29'000);
  CHECK(bench.status() == "Running");
  CHECK(bench.reaches("Failed", 3'000));
  CHECK(bench.saved().reason_code() == "JobMaxRunningTimeExceeded");
  bench.run_ms(5'000);
  CHECK(bench.holding() == 0);
  CHECK(bench.status() == "Failed");
}

TEST_CASE("job: a lost node that says nothing keeps the next attempt waiting for its receipt") {
  WorkloadBench bench(a_job(2));
  REQUIRE(bench.reaches("Running"));
  bench.silent = {"n1"};
  bench.preempt(0, v1::PREEMPT_REASON_NODE_LOST, true);
  bench.run_ms(600'000);
  CHECK(bench.demand().attempt() == 1);
  CHECK(bench.demand().phase() == v1::CLAIM_PHASE_LEAVING);
  bench.silent.clear();
  CHECK(bench.run_until([&] { return bench.demand().attempt() == 2; }));
  CHECK(all(bench.broken) == "");
}

TEST_CASE("job: nothing is saved while nothing durable changes") {
  WorkloadBench bench(a_job(2));
  REQUIRE(bench.reaches("Running"));
  bench.run_ms(5'000);
  const int before = bench.saves;
  bench.run_ms(600'000);
  (void)bench.describe();
  CHECK(bench.saves == before);
}

namespace {

/// Submit, run, be preempted, run again, succeed. Returns what went wrong; empty: nothing.
std::string whole_life(WorkloadBench& bench) {
  bench.program = [](std::uint32_t, std::uint32_t, std::uint32_t attempt) {
    return std::pair{std::int64_t{attempt == 1 ? 3'600'000 : 2'000}, 0};
  };
  if (!bench.reaches("Running", 300'000)) return "never ran, is " + bench.status();
  if (bench.demand().attempt() == 1) {
    bench.preempt(0, v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION, false);
  }
  if (!bench.reaches("Succeeded", 300'000)) return "never succeeded, is " + bench.status();
  bench.faults = {};
  bench.run_ms(30'000);
  if (bench.demand().phase() != v1::CLAIM_PHASE_GONE) return "its quota does not know it is gone";
  if (bench.holding() != 0) return "a pod still holds a slot";
  if (bench.saved().restarts_used() != 0) return "counted a restart";
  return all(bench.broken);
}

}  // namespace

TEST_CASE("job: dies after any step of its life and goes on from its record") {
  WorkloadBench undisturbed(a_job(2));
  REQUIRE(whole_life(undisturbed) == "");
  REQUIRE(undisturbed.steps > 15);
  for (int step = 1; step <= undisturbed.steps; ++step) {
    CAPTURE(step);
    WorkloadBench bench(a_job(2));
    bench.die_after_step = step;
    CHECK(whole_life(bench) == "");
    CHECK(bench.saved().preemptions() == 1);
  }
}

TEST_CASE("job: any one message is lost, or comes again later, and nothing else changes") {
  WorkloadBench undisturbed(a_job(2));
  REQUIRE(whole_life(undisturbed) == "");
  for (int message = 1; message <= undisturbed.messages; ++message) {
    CAPTURE(message);
    WorkloadBench lossy(a_job(2));
    lossy.lose_message = message;
    CHECK(whole_life(lossy) == "");
    CHECK(lossy.saved().preemptions() == 1);
    WorkloadBench echoing(a_job(2));
    echoing.repeat_message = message;
    CHECK(whole_life(echoing) == "");
    CHECK(echoing.saved().preemptions() == 1);
  }
}

TEST_CASE("job: lives through losses, repeats, delays and deaths together") {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    WorkloadBench bench(a_job(3));
    bench.seed(seed);
    bench.faults = {.lose = 0.2, .twice = 0.2, .die = 0.05, .latest_ms = 600};
    CHECK(whole_life(bench) == "");
  }
}
