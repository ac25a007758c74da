// Silence, loss, cordon, drain and fence, with all the real machines. I6 (two attempts of one job
// never run at once) is checked by the house at every launch.
#include <doctest/doctest.h>

#include "tests/actors/house_bench.hpp"

using namespace ebb::test;  // NOLINT

namespace {
constexpr std::int64_t kStopAfterMs = 20'000;
constexpr std::int64_t kLostAfterMs = 30'000;

/// Nodes n101 and n102 of eight GPUs, all of them in quota q11.
struct Home : House {
  Home() : House(2) {
    tuning = {.node_lost_after_ms = kLostAfterMs, .stop_after_ms = kStopAfterMs};
    silence_expected = true;
    furnish(false);
    add_quota("q11", 16);
  }
  void cut_off(const std::string& node) {
    mute.insert("node/" + node);
    deaf.insert("node/" + node);
  }
  void connect() {
    mute.clear();
    deaf.clear();
  }
  v1::Reply operate(const std::string& node, const std::string& operation, bool force = false) {
    v1::TenantCommand command;
    command.mutable_operate_node()->set_node(node);
    command.mutable_operate_node()->set_operation(operation);
    command.mutable_operate_node()->set_force(force);
    return tenant(command);
  }
  void start_job(bool fault_tolerance, std::int64_t gpus = 8) {
    v1::WorkloadSpec spec = a_job(1);
    spec.set_quota_id("q11");
    spec.set_fault_tolerance(fault_tolerance);
    spec.mutable_roles(0)->mutable_each()->set_gpu_milli(gpus * 1'000);
    submit(spec);
    REQUIRE(reaches("job/d1", "Running"));
    home = running_on("n101", "job/d1") > 0 ? "n101" : "n102";
    other = home == "n101" ? "n102" : "n101";
  }
  std::string wrongs() const {
    std::string all;
    for (const std::string& one : broken) all += one + "\n";
    return all;
  }
  std::string home, other;  // where the job lies, and the other node
};
std::int64_t gpus_of(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list) {
  std::int64_t sum = 0;
  for (const v1::TypedAmount& one : list) sum += one.amount().gpu_milli();
  return sum / 1'000;
}
}  // namespace

TEST_CASE("node life: a node that is cut off stops its job before the job starts elsewhere") {
  Home house;
  house.start_job(true);
  const std::int64_t cut_ms = house.now_ms();
  house.cut_off(house.home);
  REQUIRE(house.run_until([&] { return house.running("job/d1") == 0; }, kStopAfterMs + 1'000));
  CHECK(house.now_ms() - cut_ms > kStopAfterMs - 3'000);
  REQUIRE(house.run_until([&] { return house.running_on(house.other, "job/d1") == 1; }, 60'000));
  // 20 s x 1.05 + grace + 10 s, and up to one beat less what the pool had last heard.
  CHECK(house.now_ms() - cut_ms >= kStopAfterMs + 10'000);
  house.connect();
  house.run_ms(10'000);
  CHECK(house.running("job/d1") == 1);
  CHECK(house.running_on(house.other, "job/d1") == 1);
  CHECK(house.describe("job/d1").history(0).outcome() == "Node Lost");
  CHECK(house.describe("job/d1").preemptions() == 0);
  CAPTURE(house.last_decisions(20));
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: a node that hears but is not heard stops its job all the same") {
  Home house;
  house.start_job(true);
  house.mute.insert("node/" + house.home);
  CHECK(house.run_until([&] { return house.running_on(house.other, "job/d1") == 1; }, 90'000));
  CHECK(house.running_on(house.home, "job/d1") == 0);
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: a short silence hurts no job") {
  Home house;
  house.start_job(true);
  house.cut_off(house.home);
  house.run_ms(kStopAfterMs - 4'000);
  house.connect();
  house.run_ms(60'000);
  CHECK(house.running_on(house.home, "job/d1") == 1);
  CHECK(house.describe("job/d1").history_size() == 0);
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: without fault tolerance a job waits for its node, which is lost, not dead") {
  Home house;
  house.start_job(false);
  house.cut_off(house.home);
  house.run_ms(10 * kLostAfterMs);
  CHECK(house.running_on(house.home, "job/d1") == 1);
  CHECK(house.running_on(house.other, "job/d1") == 0);
  house.connect();
  house.run_ms(10'000);
  CHECK(house.status("job/d1") == "Running");
  CHECK(house.describe("job/d1").history_size() == 0);
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: replicas of a service are replaced when their node is suspect") {
  Home house;
  v1::WorkloadSpec spec = a_service(2);
  spec.set_quota_id("q11");
  spec.mutable_roles(0)->mutable_each()->set_gpu_milli(2'000);
  house.submit(spec);
  REQUIRE(house.reaches("service/e1", "Running"));
  const std::string home = house.running_on("n101", "service/e1") == 2 ? "n101" : "n102";
  const std::string other = home == "n101" ? "n102" : "n101";
  house.cut_off(home);
  CHECK(house.run_until([&] { return house.running_on(other, "service/e1") == 2; }, 12'000));
  house.connect();
  CHECK(house.run_until([&] { return house.running_on(home, "service/e1") == 0; }, 12'000));
  house.run_ms(5'000);
  CHECK(house.running("service/e1") == 2);
  CHECK(gpus_of(house.quota_view("q11").used()) == 4);
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: a fence frees what lies on a silent node, and nothing of one that answers") {
  Home house;
  house.start_job(false);
  CHECK(house.operate(house.home, "Fence").refusal().code().empty());
  house.run_ms(20'000);
  CHECK(house.running_on(house.home, "job/d1") == 1);
  CHECK(house.operate(house.home, "Uncordon").refusal().code().empty());
  house.mortal.clear();
  house.cut_off(house.home);
  house.run_ms(10'000);
  // The operator says so because the machine is off: its processes are over.
  house.power_off(house.home);
  CHECK(house.operate(house.home, "Fence").refusal().code().empty());
  CHECK(house.run_until([&] { return house.running_on(house.other, "job/d1") == 1; }, 10'000));
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: a node that booted anew proves by that that its pods are over") {
  Home house;
  house.start_job(false);
  house.cut_off(house.home);
  house.run_ms(10'000);
  house.power_off(house.home);
  house.connect();
  house.boot_anew(house.home);
  CHECK(house.run_until([&] { return house.running("job/d1") == 1; }, 10'000));
  CHECK(house.reaches("job/d1", "Running", 10'000));
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: cordoned GPUs leave the holding, what runs on them stays booked") {
  Home house;
  house.start_job(false, 4);
  house.operate(house.home, "Cordon");
  house.run_ms(2'000);
  const v1::QuotaView root = house.quota_view("q1");
  CHECK(gpus_of(root.spec().guarantee()) == 16);
  CHECK(gpus_of(root.holding()) == 12);
  CHECK(gpus_of(root.frozen()) == 4);
  // The other node is as free as it was: a job of its size starts there.
  v1::WorkloadSpec spec = a_job(1);
  spec.set_id("d2");
  spec.set_quota_id("q11");
  spec.mutable_roles(0)->mutable_each()->set_gpu_milli(8'000);
  house.submit(spec);
  CHECK(house.reaches("job/d2", "Running", 5'000));
  CHECK(house.running_on(house.other, "job/d2") == 1);
  v1::WorkloadCommand stop;
  stop.set_stop(true);
  house.workload("job/d1", stop);
  REQUIRE(house.reaches("job/d1", "Stopped"));
  house.run_ms(2'000);
  CHECK(gpus_of(house.quota_view("q1").holding()) == 8);
  house.operate(house.home, "Uncordon");
  house.run_ms(2'000);
  CHECK(gpus_of(house.quota_view("q1").holding()) == 16);
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: a drain moves a job with its checkpoint and leaves a development instance") {
  Home house;
  house.start_job(false, 2);
  v1::WorkloadSpec spec = an_instance();
  spec.set_quota_id("q11");
  spec.mutable_roles(0)->mutable_each()->set_gpu_milli(2'000);
  house.submit(spec);
  REQUIRE(house.reaches("instance/i1", "Running"));
  REQUIRE(house.running_on(house.home, "instance/i1") == 1);
  house.operate(house.home, "Drain");
  CHECK(house.run_until([&] { return house.running_on(house.other, "job/d1") == 1; }, 10'000));
  CHECK(house.describe("job/d1").history(0).preempt().reason() == v1::PREEMPT_REASON_NODE_DRAINED);
  house.run_ms(10'000);
  CHECK(house.running_on(house.home, "instance/i1") == 1);
  house.operate(house.home, "Drain", true);
  CHECK(house.run_until([&] { return house.running_on(house.other, "instance/i1") == 1; }, 10'000));
  CHECK(house.wrongs() == "");
}

TEST_CASE("node life: under losses no job ever runs twice, and it runs again in the end") {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    Home house;
    house.seed(seed);
    house.start_job(true);
    house.faults = {.lose = 0.3, .twice = 0.1, .die = 0, .latest_ms = 400};
    house.cut_off(house.home);
    house.run_ms(seed * 3'000);  // some come back in time, some do not
    house.connect();
    house.run_ms(60'000);
    house.faults = {};
    CHECK(house.reaches("job/d1", "Running"));
    CHECK(house.running("job/d1") == 1);
    CHECK(house.wrongs() == "");
  }
}
