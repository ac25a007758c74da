// Quotas between the API's JSON and our messages. Pure: what a translation must know comes in as
// arguments.
//
// Errors: refusals that name the field, its value and what is allowed.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/quota.pb.h"
#include "ebb/v1/tenant.pb.h"
#include "gateway/api/catalogue.hpp"
#include "gateway/translation/tree_facts.hpp"

namespace ebb::gateway {

using api::Json;

extern const api::Supported kCreateQuotaFields;
extern const api::Supported kUpdateQuotaFields;
extern const api::Supported kScaleQuotaFields;

/// CreateQuota without a parent. The spec's guarantee stays empty: the tenant counts the nodes it
/// binds.
Result<v1::RootQuota> root_quota_of(const Json& body, const std::string& id, std::int64_t wall_ms);
/// CreateQuota with a parent; `tree`: nodes of the parent's root.
Result<v1::QuotaSpec> child_quota_of(const Json& body, const std::string& id,
                                     const v1::QuotaSpec& parent, const TreeFacts& tree,
                                     std::int64_t wall_ms);
/// UpdateQuota: what the quota is to be, from what it is and what the request names.
Result<v1::QuotaSpec> updated_quota_of(const Json& body, const v1::QuotaSpec& now);

/// A child's Min: an amount, or nodes of types.
Result<scheduling::Amounts> guarantee_of(const Json& min, const TreeFacts& tree,
                                         const std::string& path);
/// A root's Min: nodes of types.
Result<std::vector<v1::RootQuota::NodeCount>> node_counts_of(const Json& min);
/// ScalePolicy: Drain (default) waits, Preempt asks victims.
Result<bool> scale_preempts(const Json& body);

/// What is around a quota, for its answer.
struct QuotaSurroundings {
  std::vector<std::pair<std::string, std::string>> children;    // id, name
  std::vector<std::pair<std::string, std::string>> workspaces;  // id, name
  const v1::TenantRecord* tenant = nullptr;
};
/// As GetQuota and ListQuotas show it; `view` null: without QuotaDetails.
Json quota_json(const v1::QuotaSpec& spec, const v1::QuotaView* view,
                const QuotaSurroundings& around);
/// One entry of ListQuotaWorkloads.
Json queue_entry_json(const v1::QueueEntry& entry, const v1::QuotaSpec& quota,
                      const std::string& workload_name, const std::string& workload_status,
                      const std::string& workspace_name);

}  // namespace ebb::gateway
