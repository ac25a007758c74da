#include "cli/apply_file.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace ebb::cli;

TEST_CASE("apply file: nested quotas become children that name their parent, parents first") {
  const auto file = read_apply_file(R"(
Quotas:
  - QuotaName: quota-1
    ResourceGroups: [main]
    Min: {NodeSpecs: [{Type: A100, Count: 16}]}
    SubQuotas:
      - QuotaName: quota-1.1
        Min: {GPU: 48}
        SubQuotas:
          - {QuotaName: quota-1.1.1, Min: {GPU: 8}}
      - {QuotaName: quota-1.2, Min: {GPU: 80}}
)",
                                    "teams.yaml");
  REQUIRE(file);
  const auto& quotas = file.value().quotas;
  REQUIRE(quotas.size() == 4);
  CHECK(quotas[0].name == "quota-1");
  CHECK(quotas[0].line == 3);
  CHECK(quotas[0].body["Min"]["NodeSpecs"][0]["Count"] == 16);
  CHECK(!quotas[0].body.contains("SubQuotas"));
  CHECK(quotas[1].body["ParentQuota"] == "quota-1");
  CHECK(quotas[2].body["ParentQuota"] == "quota-1.1");
  CHECK(quotas[3].body["ParentQuota"] == "quota-1");
}

TEST_CASE("apply file: scalars take the type that the API wants") {
  const auto file = read_apply_file(R"(
Jobs:
  - DisplayName: train
    Copies: 2
    Envs: {STEPS: 1000, RATE: 0.5, FLAG: true, EMPTY: ""}
    Priority: 3
    Description:
    Settings: {TerminationGracePeriodSeconds: 20}
    JobSpecs: [{Type: Worker, ResourceConfig: {GPU: 8, Memory: 64Gi}}]
)",
                                    "jobs.yaml");
  REQUIRE(file);
  const auto& jobs = file.value().jobs;
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[1].name == "train-1");
  CHECK(jobs[1].body["DisplayName"] == "train-1");
  CHECK(!jobs[1].body.contains("Copies"));
  CHECK(jobs[0].body["Envs"]["STEPS"] == "1000");
  CHECK(jobs[0].body["Envs"]["RATE"] == "0.5");
  CHECK(jobs[0].body["Envs"]["FLAG"] == "true");
  CHECK(jobs[0].body["Envs"]["EMPTY"] == "");
  CHECK(jobs[0].body["Priority"] == 3);
  CHECK(jobs[0].body["Description"].is_null());
  CHECK(jobs[0].body["JobSpecs"][0]["ResourceConfig"]["GPU"] == "8");
}

TEST_CASE("apply file: a mistake is found before anything is sent, with line and nearest key") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"Job: []", "f.yaml:1: unknown key `Job`; did you mean Jobs?"},
      {"Jobs:\n  - DisplayName: a\n    Quotas: x\n",
       "f.yaml:3: unknown key `Quotas`; did you mean Quota?"},
      {"Jobs:\n  - DisplayName: a\n    JobSpecs:\n      - {Type: Worker, PodCuont: 2}\n",
       "f.yaml:4: unknown key `JobSpecs[0].PodCuont`; did you mean PodCount?"},
      {"Jobs:\n  - Priority: 3\n", "f.yaml:2: DisplayName must be given"},
      {"Jobs:\n  - DisplayName: a\n    Priority: high\n",
       "f.yaml:3: Priority is \"high\"; a number is expected"},
      {"Jobs:\n  - DisplayName: a\n  - DisplayName: a\n", "f.yaml:3: Jobs has `a` twice"},
      {"Jobs:\n  - {DisplayName: a, DisplayName: b}\n", "f.yaml:2: `DisplayName` comes twice"},
      {"Jobs: {DisplayName: a}", "f.yaml:1: Jobs: a list is expected"},
      {"Jobs:\n  - DisplayName: a\n    Copies: -1\n",
       "f.yaml:2: Copies is -1; 0 to 10000 are allowed"},
      {"Services:\n  - name: s\n    metadata: {instances: 4}\n",
       "f.yaml:3: unknown key `metadata.instances`; did you mean instance?"},
      {"Services:\n  - name: s\n    cronscaler: {ScaleJobs: [{Shedule: x}]}\n",
       "f.yaml:3: unknown key `cronscaler.ScaleJobs[0].Shedule`; did you mean Schedule?"},
      {"[a, b]", "f.yaml:1: a map of sections is expected"},
      {"Jobs: []\nJobs: []\n", "f.yaml:2: `Jobs` comes twice"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto file = read_apply_file(row.text, "f.yaml");
    REQUIRE(!file);
    CHECK(file.refusal().message == row.message);
  }
}

TEST_CASE("apply file: one item alone and a list of items are both taken") {
  const auto alone = read_items("{DisplayName: a, Priority: 3}", "f.yaml", "Jobs");
  REQUIRE(alone);
  REQUIRE(alone->size() == 1);
  CHECK(alone->front().name == "a");
  CHECK(alone->front().body["Priority"] == 3);
  const auto listed = read_items("- DisplayName: a\n- DisplayName: b\n", "f.yaml", "Jobs");
  REQUIRE(listed);
  CHECK(listed->size() == 2);
}

TEST_CASE("apply file: aliases cannot make a small file a huge one") {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below;
    for (int k = 0; k < 9; ++k) text += ", " + below;
    text += "]\n";
  }
  const auto file = read_apply_file(text, "f.yaml");
  REQUIRE(!file);
  CHECK(file.refusal().message.find("more than 100000 values") != std::string::npos);
}

TEST_CASE("apply file: the file of docs/apply.md is right") {
  std::ifstream file(EBB_SOURCE_DIR "/docs/apply.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const auto begin = page.find("```yaml\n") + 8;
  const auto end = page.find("```", begin);
  REQUIRE(end != std::string::npos);
  const auto read = read_apply_file(page.substr(begin, end - begin), "apply.md");
  REQUIRE_MESSAGE(read, (read ? "" : read.refusal().message));
  CHECK(read.value().quotas.size() == 2);
  CHECK(read.value().services.at(0).body["cronscaler"]["ScaleJobs"].size() == 2);
  CHECK(read.value().services.at(0).body["metadata"]["memory"] == 262'144);
}
