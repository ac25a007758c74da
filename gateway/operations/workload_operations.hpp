// What the operations of jobs, services and dev instances share.
#pragma once
#include "gateway/operations/operation.hpp"
#include "gateway/translation/workload_json.hpp"

namespace ebb::gateway {

/// What a new workload is born into: its quota and the tree's nodes. Refused if quota or workspace
/// is unknown.
Task<Result<Birth>> birth_of(Desk& desk, std::string prefix, std::string user, std::string quota_id,
                             std::string workspace_id);
/// Hands it to its workspace; the id that counts (another one if the client token was used before).
Task<Result<std::string>> create_workload(Desk& desk, v1::WorkloadSpec spec,
                                          std::string client_token);
/// One command without an answer.
Task<Result<Json>> command_workload(Desk& desk, std::string address, v1::WorkloadCommand command,
                                    Json answer);
/// Times of a query: StartTime, EndTime; the bounds if absent.
struct TimeRange {
  std::int64_t from_ms = 0;
  std::int64_t to_ms = INT64_MAX;
};
Result<TimeRange> time_range_of(const Json& query);

}  // namespace ebb::gateway
