// Inference services (EAS) and their cron scalers between the API's JSON and our messages. Pure.
#pragma once
#include <optional>

#include "gateway/api/catalogue.hpp"
#include "gateway/translation/workload_json.hpp"

namespace ebb::gateway {

extern const api::Supported kServiceFields;        // of CreateService's document
extern const api::Supported kUpdateServiceFields;  // what of a running service can be changed

struct ServiceHome {
  std::string quota_id;
  std::string workspace_id;
};
/// `workspace_id`: of the query, may be empty.
Result<ServiceHome> service_home_of(const Json& document, const std::string& workspace_id);
Result<v1::WorkloadSpec> service_of(const Json& document, const ServiceHome& home,
                                    const Birth& birth);
/// The number of replicas an update asks for. Refused if it asks for nothing that can be changed.
Result<std::uint32_t> replicas_of_update(const Json& document);
Result<std::uint32_t> replicas_of_scale(const Json& body);

Result<v1::CronScaler> cron_scaler_of(const Json& body);
Json cron_scaler_json(const v1::WorkloadRecord& record);

/// As DescribeService and ListServices show it.
Json service_json(const v1::WorkloadRecord& record);
/// Replicas as ListServiceInstances shows them.
Json service_instances_json(const v1::WorkloadRecord& record);

}  // namespace ebb::gateway
