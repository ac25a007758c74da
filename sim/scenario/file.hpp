// A scenario file, read and checked: nodes, quotas, workloads, what runs, what happens, what must
// hold. GPUs in thousandths, times in milliseconds from t = 0. Errors: a refusal that names the
// field. Source: the scenario form (README of tests/sim/scenarios).
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/quota.pb.h"
#include "scheduling/amount.hpp"

namespace ebb::sim {

using Json = nlohmann::ordered_json;

struct NodeCase {
  std::string name;
  std::string type;
  std::int64_t gpus = 0;  // whole cards
  bool cordoned = false;
};
struct QuotaCase {
  v1::QuotaSpec spec;
  scheduling::Amounts guarantee;
};
struct WorkloadCase {
  std::string id;
  std::string address;
  v1::Product product = v1::PRODUCT_JOB;
  std::string quota;
  std::uint32_t pods = 0;
  std::int64_t gpu_milli = 0;
  int priority = 1;
  v1::IdleMode idle = v1::IDLE_MODE_FORBIDDEN;
  std::vector<std::string> types;
  std::int64_t grace_ms = 0;
  std::int64_t runs_ms = 0;
  std::int64_t checkpoint_every_ms = 0;
};
struct StartCase {
  std::vector<std::string> members;
  bool idle = false;
  std::vector<std::pair<std::string, std::int64_t>> on;  // node, GPUs in thousandths
  std::int64_t since_ms = 0;
};
struct Scenario {
  std::string id;
  std::string skipped;  // why it cannot be played
  std::vector<NodeCase> nodes;
  std::vector<QuotaCase> quotas;
  std::vector<WorkloadCase> workloads;
  std::vector<StartCase> start;
  std::vector<Json> events;
  Json expect;
  const WorkloadCase* workload(const std::string& id) const;
  const QuotaCase* quota(const std::string& id) const;
};

Result<Scenario> read_scenario(const std::string& text);
/// `min` of a quota: a number for all types `types`, or one per type.
scheduling::Amounts min_of(const Json& min, const std::vector<NodeCase>& nodes);
void set_child_preemption(const Json& rule, v1::QuotaSpec* spec);
/// "tb-*" fits "tb-3".
bool fits(const std::string& pattern, const std::string& id);

}  // namespace ebb::sim
