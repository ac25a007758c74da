// The scenario examples, played with the real machines. Their folder is EBB_SCENARIOS, or
// ../shared/scenarios beside the repository.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "sim/scenario/file.hpp"
#include "sim/scenario/play.hpp"

namespace {
namespace fs = std::filesystem;

fs::path scenarios() {
  if (const char* set = std::getenv("EBB_SCENARIOS")) return set;
  return fs::path(EBB_HOUSE) / "../shared/scenarios";
}
ebb::sim::Scenario read(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const auto scenario = ebb::sim::read_scenario(text.str());
  REQUIRE_MESSAGE(scenario, path.string());
  return *scenario;
}
}  // namespace

TEST_CASE("every scenario example ends as its file says, twice in the same way") {
  if (!fs::is_directory(scenarios())) {
    MESSAGE("skipped: no folder " << scenarios().string() << "; set EBB_SCENARIOS");
    return;
  }
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(scenarios())) {
    if (entry.path().extension() == ".json") files.insert(entry.path());
  }
  REQUIRE(!files.empty());
  for (const fs::path& path : files) {
    const ebb::sim::Scenario scenario = read(path);
    const ebb::sim::Verdict first = ebb::sim::play(scenario, 1);
    for (const std::string& fault : first.failed) FAIL_CHECK(scenario.id << ": " << fault);
    CHECK_MESSAGE(ebb::sim::play(scenario, 1).hash == first.hash, scenario.id);
  }
}

TEST_CASE("a scenario that starts with more than a node has is refused") {
  const auto scenario = ebb::sim::read_scenario(R"({"id": "x", "nodes": [{"name": "n", "gpus": 1}],
    "quotas": [{"name": "root", "parent": null, "min": 1}],
    "workloads": [{"id": "j", "quota": "root", "pods": 2, "gpu": 1}],
    "start": [{"id": "j", "on": {"n": 2}}], "expect": {"by": 1}})");
  REQUIRE(scenario);
  const auto verdict = ebb::sim::play(*scenario, 1);
  REQUIRE(verdict.failed.size() == 1);
  CHECK(verdict.failed[0] == "start.on: node \"n\" has not so many GPUs");
}
