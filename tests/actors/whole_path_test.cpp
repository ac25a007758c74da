#include <doctest/doctest.h>

#include <algorithm>

#include "tests/actors/house_bench.hpp"

using namespace ebb::test;  // NOLINT

namespace {

v1::WorkloadSpec job(const std::string& id, const std::string& quota, std::uint32_t pods,
                     std::int64_t gpus, int priority = 3) {
  v1::WorkloadSpec spec = a_job(pods);
  spec.set_id(id);
  spec.set_quota_id(quota);
  spec.set_priority(priority);
  spec.mutable_roles(0)->mutable_each()->set_gpu_milli(gpus * 1'000);
  return spec;
}
v1::WorkloadSpec service(const std::string& id, const std::string& quota, std::uint32_t replicas,
                         std::int64_t gpus) {
  v1::WorkloadSpec spec = a_service(replicas);
  spec.set_id(id);
  spec.set_name(id);
  spec.set_quota_id(quota);
  spec.set_priority(9);
  spec.mutable_roles(0)->mutable_each()->set_gpu_milli(gpus * 1'000);
  return spec;
}
std::int64_t gpus_used(House& house, const std::string& quota) {
  std::int64_t sum = 0;
  const v1::QuotaView view = house.quota_view(quota);
  for (const v1::TypedAmount& used : view.used()) {
    sum += used.amount().gpu_milli();
  }
  return sum / 1'000;
}
v1::WorkloadCommand scale_to(std::uint32_t replicas) {
  v1::WorkloadCommand command;
  command.set_scale(replicas);
  return command;
}
/// Everything has come to rest: nobody's slots, nobody's charges.
bool is_empty(House& house) {
  return house.processes() == 0 && gpus_used(house, "q1") == 0 && gpus_used(house, "q11") == 0 &&
         house.quota_view("q11").entries_size() == 0;
}

}  // namespace

TEST_CASE("whole path: a job is submitted, placed as a gang, runs and succeeds") {
  House house(2);
  house.furnish(false);
  house.add_quota("q11", 16);
  house.program = [](const v1::PodKey&) { return std::pair{std::int64_t{5'000}, 0}; };
  const v1::Reply made = house.submit(job("d1", "q11", 2, 8), "token-1");
  CHECK(made.id() == "d1");
  CHECK(house.reaches("job/d1", "Running"));
  CHECK(house.running("job/d1") == 2);
  CHECK(gpus_used(house, "q11") == 16);
  CHECK(house.reaches("job/d1", "Succeeded"));
  house.run_ms(10'000);
  CHECK(is_empty(house));
  INFO(house.last_decisions(40));
  CHECK(house.broken.empty());
}

TEST_CASE("whole path: the same client token makes one job") {
  House house(1);
  house.furnish(false);
  house.add_quota("q11", 8);
  CHECK(house.submit(job("d1", "q11", 1, 1), "token-1").id() == "d1");
  CHECK(house.submit(job("d2", "q11", 1, 1), "token-1").id() == "d1");
  house.run_ms(1'000);
  CHECK(house.status("job/d2") == "none");
  house.kill("workspace/w1");
  CHECK(house.submit(job("d3", "q11", 1, 1), "token-1").id() == "d1");
  CHECK(house.submit(job("d3", "q11", 1, 1), "token-2").id() == "d3");
}

TEST_CASE("whole path: a gang that fits in no way starts nothing") {
  House house(2);
  house.furnish(false);
  house.add_quota("q11", 16);
  house.submit(job("small", "q11", 1, 1));
  REQUIRE(house.reaches("job/small", "Running"));
  house.submit(job("gang", "q11", 2, 8));  // 8 + 7 are free
  house.run_ms(30'000);
  CHECK(house.running("job/gang") == 0);
  CHECK(house.status("job/gang") == "Queuing");
  CHECK_FALSE(house.describe("job/gang").wait().sentence().empty());
  CHECK(house.broken.empty());
}

TEST_CASE("whole path: a service on the parent takes GPUs back from a child's job, which resumes") {
  House house(2);
  house.furnish(true);
  house.add_quota("q11", 16);
  house.submit(job("d1", "q11", 1, 8));
  house.submit(job("d2", "q11", 1, 8));
  REQUIRE(house.reaches("job/d1", "Running"));
  REQUIRE(house.reaches("job/d2", "Running"));
  house.submit(service("chat", "q1", 1, 8));
  CHECK(house.reaches("service/chat", "Running", 30'000));
  INFO(house.last_decisions(60));
  house.run_ms(2'000);
  CHECK(house.running("service/chat") == 1);
  // One victim is enough, and it waits with the reason.
  const bool first = house.status("job/d1") == "Running";
  const std::string victim = first ? "job/d2" : "job/d1";
  CHECK(house.status(first ? "job/d1" : "job/d2") == "Running");
  CHECK(house.status(victim) == "Queuing");
  const v1::WorkloadRecord put_back = house.describe(victim);
  CHECK(put_back.sub_status() == "Resource Preempted");
  REQUIRE(put_back.history_size() == 1);
  CHECK(put_back.history(0).outcome() == "Resource Preempted");
  house.workload("service/chat", scale_to(0));
  CHECK(house.reaches(victim, "Running", 30'000));
  CHECK(house.describe(victim).restarts_used() == 0);
  CHECK(house.broken.empty());
}

TEST_CASE("whole path: idle resources are used and taken back by who owns them") {
  House house(2);
  house.furnish(true);
  house.add_quota("q11", 8);
  house.add_quota("q12", 8);
  v1::WorkloadSpec borrower = job("idle", "q11", 2, 8);
  borrower.set_idle(v1::IDLE_MODE_ACCEPTED);
  house.submit(borrower);
  REQUIRE(house.reaches("job/idle", "Running", 30'000));
  CHECK(house.describe("job/idle").claims(0).claim_class() == v1::CLAIM_CLASS_IDLE);
  CHECK(gpus_used(house, "q11") == 0);
  house.submit(job("owner", "q12", 1, 8));
  CHECK(house.reaches("job/owner", "Running", 30'000));
  INFO(house.last_decisions(40));
  CHECK(house.running("job/idle") == 0);
  CHECK(house.describe("job/idle").sub_status() == "Resource Preempted");
  CHECK(house.broken.empty());
}

TEST_CASE("whole path: all of ebbd dies at any time of a busy minute, and nothing is lost") {
  for (int second = 1; second <= 20; ++second) {
    CAPTURE(second);
    House house(2);
    house.furnish(true);
    house.add_quota("q11", 16);
    house.program = [](const v1::PodKey& key) {
      return std::pair{std::int64_t{key.workload() == "service/chat" ? -1 : 8'000}, 0};
    };
    house.submit(job("d1", "q11", 2, 4));
    house.submit(job("d2", "q11", 1, 8));
    house.submit(job("d3", "q11", 2, 8));
    house.run_ms(second * 300);
    house.submit(service("chat", "q1", 1, 8));
    house.run_ms(second * 100);
    house.kill_ebbd();
    CHECK(house.reaches("service/chat", "Running", 60'000));
    for (const char* id : {"job/d1", "job/d2"}) CHECK(house.reaches(id, "Succeeded", 120'000));
    house.workload("service/chat", scale_to(0));
    CHECK(house.reaches("job/d3", "Succeeded", 120'000));
    house.run_ms(30'000);
    CHECK(is_empty(house));
    INFO(house.last_decisions(60));
    CHECK(house.broken.empty());
  }
}

TEST_CASE("whole path: lives through losses, repeats, delays and deaths of single machines") {
  for (std::uint32_t seed = std::getenv("TRACE") ? 44 : 1;
       seed <= (std::getenv("TRACE") ? 44u : 60u); ++seed) {
    CAPTURE(seed);
    House house(3);
    house.seed(seed);
    house.furnish(true);
    house.add_quota("q11", 24);
    house.program = [](const v1::PodKey& key) {
      return std::pair{std::int64_t{key.workload() == "service/chat" ? -1 : 6'000}, 0};
    };
    // Quotas and the pool share ebbd with all others; the test above lets them die together.
    house.mortal = {"node", "job", "service", "tenant", "workspace"};
    const FaultRates rates{.lose = 0.1, .twice = 0.1, .die = 0.01, .latest_ms = 200};
    house.faults = rates;
    for (int i = 1; i <= 6; ++i) {
      house.submit(job("d" + std::to_string(i), "q11", static_cast<std::uint32_t>(1 + i % 3), 4));
    }
    house.run_ms(2'000);
    house.submit(service("chat", "q1", 2, 8));
    if (!house.reaches("service/chat", "Running", 120'000)) {
      house.faults = {};
      std::printf("seed %u after %d\n", seed, house.reaches("service/chat", "Running", 120'000));
      v1::Envelope ask;
      ask.mutable_pool()->mutable_command()->set_describe(true);
      v1::PoolView view;
      view.ParseFromString(house.ask("pool/q1", ask).body());
      std::printf("POOL %s\n", view.DebugString().c_str());
      std::printf("%s\n%s\n%s\n", house.last_decisions(60).c_str(),
                  house.quota_view("q1").DebugString().c_str(),
                  house.describe("service/chat").DebugString().c_str());
    }
    house.workload("service/chat", scale_to(0));
    house.run_ms(10'000);
    house.faults = {};
    for (int i = 1; i <= 6; ++i) {
      CHECK(house.reaches("job/d" + std::to_string(i), "Succeeded", 120'000));
    }
    house.run_ms(30'000);
    CHECK(is_empty(house));
    INFO(house.last_decisions(30));
    CHECK(house.broken.empty());
  }
}
