// Training jobs (DLC) between the API's JSON and our messages. Pure.
#pragma once
#include "gateway/api/catalogue.hpp"
#include "gateway/translation/workload_json.hpp"

namespace ebb::gateway {

inline constexpr std::size_t kJobRequestBytesMax = 65'536;

extern const api::Supported kCreateJobFields;
extern const api::Supported kUpdateJobFields;

/// What must be known before the rest can be read: quota and workspace of a request.
struct JobHome {
  std::string quota_id;
  std::string workspace_id;
};
Result<JobHome> job_home_of(const Json& body);

Result<v1::WorkloadSpec> job_of(const Json& body, const JobHome& home, const Birth& birth);
Result<v1::WorkloadUpdate> job_update_of(const Json& body, const v1::WorkloadSpec& now);

/// As GetJob shows it.
Json job_json(const v1::WorkloadRecord& record, const std::string& workspace_name,
              std::int64_t wall_ms);
/// As ListJobs shows it.
Json job_item_json(const v1::WorkloadRecord& record, const std::string& workspace_name,
                   const std::string& quota_name, std::int64_t wall_ms);

}  // namespace ebb::gateway
