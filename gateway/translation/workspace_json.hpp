// Workspaces, members and bound quotas between the API's JSON and our messages. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/tenant.pb.h"
#include "gateway/api/catalogue.hpp"

namespace ebb::gateway {

using api::Json;

extern const api::Supported kCreateWorkspaceFields;
extern const api::Supported kCreateMemberFields;
extern const api::Supported kCreateWorkspaceResourceFields;

Result<v1::WorkspaceSpec> workspace_of(const Json& body, const std::string& id,
                                       const std::string& owner, std::int64_t wall_ms);
/// CreateMember; member ids are made from workspace and user, so that the same user is the same
/// member.
Result<std::vector<v1::Member>> members_of(const Json& body, const std::string& workspace_id,
                                           std::int64_t wall_ms);
/// CreateWorkspaceResource: the quota ids to bind, with the products they are for.
Result<std::vector<v1::QuotaBinding>> bindings_of(const Json& body);

Json workspace_json(const v1::WorkspaceSpec& spec);
Json member_json(const v1::Member& member);
Json binding_json(const v1::QuotaBinding& binding, const std::string& workspace_id,
                  const std::string& quota_name, const std::string& resource_type);

}  // namespace ebb::gateway
