// Dev instances (DSW) between the API's JSON and our messages. Pure.
#pragma once
#include "gateway/api/catalogue.hpp"
#include "gateway/translation/workload_json.hpp"

namespace ebb::gateway {

extern const api::Supported kCreateInstanceFields;

struct InstanceHome {
  std::string quota_id;
  std::string workspace_id;
};
Result<InstanceHome> instance_home_of(const Json& body);
Result<v1::WorkloadSpec> instance_of(const Json& body, const InstanceHome& home,
                                     const Birth& birth);
/// As GetInstance and ListInstances show it.
Json instance_json(const v1::WorkloadRecord& record, const std::string& workspace_name,
                   const std::string& quota_name, std::int64_t wall_ms);

}  // namespace ebb::gateway
