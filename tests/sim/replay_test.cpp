#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "sim/replay/run.hpp"

using namespace ebb;       // NOLINT: a test
using namespace ebb::sim;  // NOLINT

namespace {
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "ebb-replay-test") {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

constexpr const char* kJobs = "submit_s,run_s,gpus\n0,100,8\n10,50,8\n20,30,4\n20,30,4\n";
std::string plan_with(const std::string& jobs, const std::string& more = "") {
  return "id: test\n"
         "nodes: [{name: n, count: 1, gpus: 8, type: A100}]\n"
         "quotas: [{name: q, min: 8}]\n" +
         more + "jobs: [{file: jobs.csv, submit: submit_s, run: run_s, gpus: gpus, " + jobs +
         "}]\n";
}
}  // namespace

TEST_CASE("replay: jobs that queue for one node end when arithmetic says, every time the same") {
  const Folder folder;
  folder.write("jobs.csv", kJobs);
  const auto plan = read_replay_plan(folder.write("plan.yaml", plan_with("quota: q")), "/nowhere");
  REQUIRE(plan);
  REQUIRE(plan->jobs.size() == 4);
  const ReplayOutcome outcome = run_replay(*plan, {});
  REQUIRE(outcome.finished);
  // 0 to 100, then 100 to 150, then both 4-GPU jobs 150 to 180; a start takes well under a second.
  const double ends[] = {100, 150, 180, 180};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(static_cast<double>(outcome.jobs[i].ended_ms) / 1000 - ends[i]) < 2);
    CHECK(outcome.jobs[i].evictions == 0);
  }
  const Json summary = summary_of(*plan, outcome);
  CHECK(std::abs(summary.at("mean_jct_s").get<double>() - (100 + 140 + 160 + 160) / 4.0) < 2);
  CHECK(run_replay(*plan, {}).hash == outcome.hash);
}

TEST_CASE("replay: a service takes GPUs back, the work since the last checkpoint is lost") {
  const Folder folder;
  folder.write("jobs.csv", "submit_s,run_s,gpus\n0,1000,8\n");
  folder.write("demand.csv", "t_s,value\n0,0\n500,1\n800,0\n");
  const auto plan = read_replay_plan(
      folder.write("plan.yaml",
                   "id: test\n"
                   "nodes: [{name: n, count: 1, gpus: 8, type: A100}]\n"
                   "quotas:\n"
                   "  - {name: parent, min: 8, childPreemption: {on: true, kinds: [job]}}\n"
                   "  - {name: q, parent: parent, min: 8}\n"
                   "checkpoint_s: 200\n"
                   "restart_s: 60\n"
                   "jobs: [{file: jobs.csv, submit: submit_s, run: run_s, gpus: gpus, quota: q}]\n"
                   "services: [{id: s, quota: parent, gpus: 8, demand: {file: demand.csv, time: "
                   "t_s, value: value}}]\n"),
      "/nowhere");
  REQUIRE(plan);
  const ReplayOutcome outcome = run_replay(*plan, {});
  REQUIRE(outcome.finished);
  CHECK(outcome.jobs[0].evictions == 1);
  // 500 s run of which 400 are saved; it goes on at 800 with 60 s of loading and 600 s of work.
  CHECK(std::abs(static_cast<double>(outcome.jobs[0].ended_ms) / 1000 - 1460) < 3);
  CHECK(std::abs(outcome.jobs[0].lost_gpu_hours - 8 * (100 + 60) / 3600.0) < 0.01);
  CHECK(outcome.unmet_gpu_hours < 8 * 2 / 3600.0);
}

TEST_CASE("replay: a wrong plan is refused with the field and the file") {
  const Folder folder;
  const std::string jobs = folder.write("jobs.csv", kJobs);
  struct Row {
    const char* jobs;
    const char* more;
    const char* message;
  };
  const Row rows[] = {
      {"quota: none", "", "quota \"none\" is not in quotas"},
      {"quota: q, prio: 3", "", "\"prio\" is unknown; allowed: "},
      {"quota: q, idle: maybe", "", "idle \"maybe\"; allowed: never, accept, only"},
      {"quota: q", "windows: 3\n", "\"windows\" is unknown; allowed: "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.jobs);
    const auto plan =
        read_replay_plan(folder.write("plan.yaml", plan_with(row.jobs, row.more)), "/nowhere");
    REQUIRE_FALSE(plan);
    CHECK(plan.refusal().message.find(row.message) != std::string::npos);
  }
  folder.write("jobs.csv", "submit_s,run_s,gpus\n0,fast,8\n");
  const auto plan = read_replay_plan(folder.write("plan.yaml", plan_with("quota: q")), "/nowhere");
  REQUIRE_FALSE(plan);
  CHECK(plan.refusal().message == "file: \"" + jobs + "\" column \"run_s\": \"fast\" is no number");
}
