// What jobs, services and dev instances have in common when they are read from and shown as JSON.
// Pure.
#pragma once
#include <string>
#include <vector>

#include "ebb/v1/workload.pb.h"
#include "gateway/translation/common_json.hpp"
#include "gateway/translation/tree_facts.hpp"

namespace ebb::gateway {

/// Where a new workload is to live, found out before the translation.
struct Birth {
  std::string id;
  std::string user;
  std::int64_t wall_ms = 0;
  v1::QuotaSpec quota;
  TreeFacts tree;  // nodes of the quota's tree
};

/// Identity and surroundings, the same for all products.
void set_birth(const Birth& birth, const std::string& workspace_id, const Json& request,
               v1::WorkloadSpec* spec);
/// Fractions need the quota's EnableGPUShare and are below one card; above it whole cards only.
void check_gpu_shape(Fields& in, const char* name, std::int64_t gpu_milli,
                     const v1::QuotaSpec& quota);
/// Refuses products that the quota does not serve.
Result<Ok> check_product(v1::Product product, const v1::QuotaSpec& quota);
/// {"/bin/sh", "-c", text}.
void set_shell_command(const std::string& text, v1::LaunchSpec* launch);

/// "dlc1-worker-0": role and number within the role.
std::string pod_name(const v1::WorkloadSpec& spec, const std::string& role, std::uint32_t number);
/// One pod as the API names things.
struct PodView {
  std::string pod_id;
  std::string role;
  std::string status;      // Pending, Running, Succeeded, Failed
  std::string sub_status;  // Resource Preempted
  std::uint32_t attempt = 0;
  bool idle = false;
  bool node_hidden = false;
  v1::PodPlace place;
  v1::PodReport report;
};
/// Pods of one claim now, in order of rank; those not placed yet included.
std::vector<PodView> pods_of(const v1::WorkloadRecord& record, const v1::ClaimRecord& claim);
/// Pods of an earlier attempt.
std::vector<PodView> pods_of(const v1::WorkloadRecord& record, const v1::AttemptRecord& attempt);
/// "name-worker-0" or the id of a pod of this workload; null if there is none. The newest attempt
/// wins.
const v1::PodReport* find_pod(const v1::WorkloadRecord& record, const std::string& pod_id);

/// One line per event: time, type, reason, message; within [from, to], newest `at_most`.
Json events_json(const v1::WorkloadRecord& record, std::int64_t from_ms, std::int64_t to_ms,
                 std::size_t at_most);
/// Whether it runs on idle resources now.
bool uses_idle(const v1::WorkloadRecord& record);
/// Why it is as it is: {ReasonCode, ReasonMessage}; what it waits for while it waits.
std::pair<std::string, std::string> reason_of(const v1::WorkloadRecord& record);
/// The request as it came; an empty object if it cannot be read.
Json request_of(const v1::WorkloadSpec& spec);

}  // namespace ebb::gateway
