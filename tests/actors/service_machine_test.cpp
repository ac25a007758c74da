#include <doctest/doctest.h>

#include <algorithm>

#include "tests/actors/workload_bench.hpp"

using namespace ebb::test;  // NOLINT

namespace {

constexpr std::int64_t kMinute = 60'000;
constexpr std::int64_t kHour = 60 * kMinute;

v1::WorkloadCommand scale_to(std::uint32_t replicas) {
  v1::WorkloadCommand command;
  command.set_scale(replicas);
  return command;
}
v1::CronScaler a_cron(std::initializer_list<std::pair<const char*, std::uint32_t>> jobs,
                      std::initializer_list<const char*> exclude = {}) {
  v1::CronScaler cron;
  for (const auto& [schedule, size] : jobs) {
    v1::CronJob* job = cron.add_jobs();
    job->set_name("to-" + std::to_string(size));
    job->set_schedule(schedule);
    job->set_target_size(size);
    job->set_time_zone("Asia/Shanghai");
  }
  for (const char* text : exclude) cron.add_exclude_dates(text);
  return cron;
}
v1::WorkloadCommand set_cron(const v1::CronScaler& cron) {
  v1::WorkloadCommand command;
  *command.mutable_set_cron() = cron;
  return command;
}
/// From the bench's beginning, 2025-12-01 00:00 UTC, to an hour of a day in Shanghai (UTC+8).
std::int64_t until_shanghai(const WorkloadBench& bench, int day, double hour) {
  const std::int64_t midnight_utc = 1'764'547'200'000;
  const std::int64_t moment = midnight_utc + day * 24 * kHour +
                              static_cast<std::int64_t>((hour - 8) * static_cast<double>(kHour));
  return moment - bench.wall_ms();
}

}  // namespace

TEST_CASE("service: each replica is a claim of its own; Running means all run") {
  WorkloadBench bench(a_service(3));
  bench.places_max = 0;
  bench.run_ms(1'000);
  CHECK(bench.status() == "Waiting");
  bench.places_max = 2;
  CHECK(bench.reaches("Scaling"));
  CHECK(bench.saved().reason_message() == "1 of 3 replicas run");
  bench.run_ms(5'000);
  CHECK(bench.status() == "Scaling");
  CHECK(bench.claims_running() == std::set<std::uint32_t>{0, 1});
  bench.places_max = 3;
  CHECK(bench.reaches("Running"));
  CHECK(bench.claims_running() == std::set<std::uint32_t>{0, 1, 2});
  CHECK(bench.broken.empty());
}

TEST_CASE("service: fewer replicas take first those that wait, then the newest") {
  WorkloadBench bench(a_service(3));
  REQUIRE(bench.reaches("Running"));
  bench.places_max = 4;
  bench.run_ms(2'000);
  REQUIRE_FALSE(bench.command(scale_to(6)).has_refusal());
  bench.run_ms(5'000);
  REQUIRE(bench.claims_running() == std::set<std::uint32_t>{0, 1, 2, 3});
  REQUIRE_FALSE(bench.command(scale_to(4)).has_refusal());
  CHECK(bench.reaches("Running"));
  bench.run_ms(5'000);
  CHECK(bench.claims_running() == std::set<std::uint32_t>{0, 1, 2, 3});
  REQUIRE_FALSE(bench.command(scale_to(3)).has_refusal());
  CHECK(bench.reaches("Running"));
  bench.run_ms(5'000);
  CHECK(bench.claims_running() == std::set<std::uint32_t>{0, 1, 2});
  CHECK(bench.demand(3).phase() == v1::CLAIM_PHASE_GONE);
  CHECK(bench.saved().claims_size() == 3);
  CHECK(bench.holding() == 3);
}

TEST_CASE("service: who goes on about a replica that is over and forgotten hears that it is gone") {
  WorkloadBench bench(a_service(2));
  REQUIRE(bench.reaches("Running"));
  bench.command(scale_to(1));
  bench.run_ms(10'000);
  REQUIRE(bench.saved().claims_size() == 1);
  bench.forget_demand(1);  // as if late messages had raised it again in quota and pool
  bench.preempt(1, v1::PREEMPT_REASON_QUOTA_SCALED, true);
  bench.preempt(1, v1::PREEMPT_REASON_QUOTA_SCALED, false);
  bench.run_ms(2'000);
  CHECK(bench.demand(1).phase() == v1::CLAIM_PHASE_GONE);
  CHECK(bench.use(1).phase() == v1::CLAIM_PHASE_GONE);
}

TEST_CASE("service: a replica that died is replaced, more slowly each time it dies again") {
  WorkloadBench bench(a_service(1));
  bench.program = [](std::uint32_t, std::uint32_t, std::uint32_t) {
    return std::pair{std::int64_t{100}, 1};
  };
  REQUIRE(bench.run_until([&] { return bench.asked_at_ms.size() >= 6; }, 120'000));
  const auto gap = [&](std::size_t i) { return bench.asked_at_ms[i + 1] - bench.asked_at_ms[i]; };
  CHECK(gap(0) >= 1'000);
  CHECK(gap(1) >= 2'000);
  CHECK(gap(2) >= 4'000);
  CHECK(gap(3) >= 8'000);
  CHECK(gap(3) < 10'000);
  bench.program = nullptr;
  CHECK(bench.reaches("Running"));
  // One that ran for long starts counting anew.
  bench.run_ms(2 * kMinute);
  bench.pod_exits(0, 0, 1);
  const std::size_t before = bench.asked_at_ms.size();
  const std::int64_t died_at = bench.now_ms();
  REQUIRE(bench.run_until([&] { return bench.asked_at_ms.size() > before; }));
  CHECK(bench.asked_at_ms.back() - died_at < 1'500);
  CHECK(bench.broken.empty());
}

TEST_CASE("service: preempted replicas wait again, the others run on") {
  WorkloadBench bench(a_service(3));
  REQUIRE(bench.reaches("Running"));
  bench.places_max = 2;
  bench.preempt(1, v1::PREEMPT_REASON_SAME_LEVEL_PREEMPTION, false);
  bench.run_ms(3'000);
  CHECK(bench.claims_running() == std::set<std::uint32_t>{0, 2});
  CHECK(bench.status() == "Scaling");
  CHECK(bench.demand(1).attempt() == 2);
  bench.places_max = 3;
  CHECK(bench.reaches("Running"));
}

TEST_CASE("service: stop ends all replicas, start brings them back") {
  WorkloadBench bench(a_service(2));
  REQUIRE(bench.reaches("Running"));
  v1::WorkloadCommand stop, start, remove;
  stop.set_stop(true);
  start.set_start(true);
  remove.set_remove(true);
  CHECK_FALSE(bench.command(stop).has_refusal());
  CHECK(bench.reaches("Stopped"));
  CHECK(bench.running() == 0);
  bench.restart_machine();
  bench.run_ms(5'000);
  CHECK(bench.status() == "Stopped");
  CHECK_FALSE(bench.command(start).has_refusal());
  CHECK(bench.reaches("Running"));
  CHECK(bench.running() == 2);
  bench.command(remove);
  CHECK(bench.run_until([&] { return bench.ended; }));
  CHECK(bench.running() == 0);
}

TEST_CASE("service: a replica that can never fit leaves the service waiting, with the reason") {
  WorkloadBench bench(a_service(1));
  bench.places_max = 0;
  bench.never(0, "QuotaExceeded", "no node has 9 GPUs");
  bench.run_ms(2'000);
  CHECK(bench.status() == "Waiting");
  CHECK(bench.saved().reason_code() == "QuotaExceeded");
  CHECK(bench.saved().reason_message().find("no node has 9 GPUs") != std::string::npos);
}

TEST_CASE("service: the cron scaler sets the replicas at its times, in its zone") {
  WorkloadBench bench(a_service(1), a_cron({{"0 0 9 * * *", 4}, {"0 0 22 * * *", 1}}));
  REQUIRE(bench.reaches("Running"));
  // The bench begins at 08:00 in Shanghai.
  bench.run_ms(until_shanghai(bench, 0, 9) - 1'000);
  CHECK(bench.running() == 1);
  bench.run_ms(5'000);
  CHECK(bench.running() == 4);
  CHECK(bench.saved().replicas_wanted() == 4);
  bench.run_ms(until_shanghai(bench, 0, 22) - 1'000);
  CHECK(bench.running() == 4);
  bench.run_ms(5'000);
  CHECK(bench.running() == 1);
  bench.run_ms(until_shanghai(bench, 1, 10));
  CHECK(bench.running() == 4);
}

TEST_CASE("service: of the firings missed while the process was down the last one is applied") {
  WorkloadBench bench(a_service(1), a_cron({{"0 0 9 * * *", 4}, {"0 0 22 * * *", 2}}));
  REQUIRE(bench.reaches("Running"));
  bench.stay_down_ms(until_shanghai(bench, 3, 23));  // over three days and nights
  bench.run_ms(until_shanghai(bench, 3, 23) + kMinute);
  CHECK(bench.saved().replicas_wanted() == 2);
  CHECK(bench.running() == 2);
  const int firings = static_cast<int>(std::count_if(
      bench.decisions.begin(), bench.decisions.end(),
      [](const std::string& line) { return line.find("scale service") != std::string::npos; }));
  CHECK(firings == 1);
}

TEST_CASE("service: nothing fires on an excluded date, nor after the scaler is deleted") {
  // The first of December is excluded.
  WorkloadBench bench(a_service(1), a_cron({{"0 0 9 * * *", 4}}, {"* * * 1 12 *"}));
  REQUIRE(bench.reaches("Running"));
  bench.run_ms(until_shanghai(bench, 0, 12));
  CHECK(bench.running() == 1);
  bench.run_ms(until_shanghai(bench, 1, 10));
  CHECK(bench.running() == 4);
  v1::WorkloadCommand forget;
  forget.set_delete_cron(true);
  CHECK_FALSE(bench.command(forget).has_refusal());
  CHECK(bench.command(forget).refusal().http_status() == 404);
  CHECK_FALSE(bench.command(scale_to(2)).has_refusal());
  bench.run_ms(until_shanghai(bench, 3, 12));
  CHECK(bench.running() == 2);
}

TEST_CASE("service: a schedule that is set anew has no past") {
  WorkloadBench bench(a_service(1));
  REQUIRE(bench.reaches("Running"));
  bench.run_ms(until_shanghai(bench, 0, 12));
  CHECK_FALSE(bench.command(set_cron(a_cron({{"0 0 9 * * *", 4}}))).has_refusal());
  bench.run_ms(kHour);
  CHECK(bench.running() == 1);
}

TEST_CASE("service: a schedule that cannot be read is refused and changes nothing") {
  WorkloadBench bench(a_service(1), a_cron({{"0 0 9 * * *", 4}}));
  REQUIRE(bench.reaches("Running"));
  const v1::Reply five = bench.command(set_cron(a_cron({{"0 9 * * *", 4}})));
  CHECK(five.refusal().code() == "InvalidParameter");
  CHECK(five.refusal().message().find("it has 5 fields") != std::string::npos);
  v1::CronScaler nowhere = a_cron({{"0 0 9 * * *", 4}});
  nowhere.mutable_jobs(0)->set_time_zone("Mars/Olympus");
  CHECK(bench.command(set_cron(nowhere)).refusal().message().find("IANA") != std::string::npos);
  const v1::Reply exclude = bench.command(set_cron(a_cron({{"0 0 9 * * *", 4}}, {"0 0 0 40 1 *"})));
  CHECK(exclude.refusal().message().find("day-of-month") != std::string::npos);
  CHECK(bench.describe().cron().jobs(0).schedule() == "0 0 9 * * *");
}

TEST_CASE("service: lives through losses, repeats, delays and deaths while it is scaled") {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    WorkloadBench bench(a_service(2));
    bench.seed(seed);
    bench.faults = {.lose = 0.2, .twice = 0.2, .die = 0.02, .latest_ms = 500};
    bench.run_ms(3'000);
    bench.faults.die = 0;  // the command itself is not repeated by the bench
    CHECK_FALSE(bench.command(scale_to(5)).has_refusal());
    bench.faults.die = 0.02;
    bench.run_ms(3'000);
    bench.faults.die = 0;
    CHECK_FALSE(bench.command(scale_to(3)).has_refusal());
    bench.faults.die = 0.02;
    bench.run_ms(5'000);
    bench.faults = {};
    CHECK(bench.reaches("Running", 120'000));
    bench.run_ms(30'000);
    CHECK(bench.running() == 3);
    CHECK(bench.holding() == 3);
    CHECK(bench.broken.empty());
  }
}
