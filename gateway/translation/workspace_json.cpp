#include "gateway/translation/workspace_json.hpp"

#include <algorithm>
#include <cctype>

#include "base/nearest.hpp"
#include "gateway/translation/common_json.hpp"

namespace ebb::gateway {

const api::Supported kCreateWorkspaceFields = {"Description", "DisplayName", "EnvTypes",
                                               "WorkspaceName"};
const api::Supported kCreateMemberFields = {"Members"};
const api::Supported kCreateWorkspaceResourceFields = {
    "Resources.EnvType",     "Resources.Name",   "Resources.GroupName",
    "Resources.ProductType", "Resources.Quotas", "Resources.ResourceType",
    "Resources.WorkspaceId", "Resources.Spec",   "Resources.IsDefault"};

namespace {
const std::vector<std::string> kRoles = {"PAI.WorkspaceOwner", "PAI.WorkspaceAdmin",
                                         "PAI.AlgoDeveloper",  "PAI.AlgoOperator",
                                         "PAI.LabelManager",   "PAI.WorkspaceGuest"};
}  // namespace

Result<v1::WorkspaceSpec> workspace_of(const Json& body, const std::string& id,
                                       const std::string& owner, std::int64_t wall_ms) {
  Fields in(body);
  v1::WorkspaceSpec spec;
  spec.set_id(id);
  const std::string name = in.text("WorkspaceName");
  const bool right = name.size() >= 3 && name.size() <= 23 &&
                     std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
                     });
  if (!right) {
    in.refuse("WorkspaceName", "3 to 23 letters, digits and `_` are allowed, a letter first");
  }
  spec.set_name(name);
  spec.set_display_name(in.text("DisplayName", 256));
  spec.set_description(in.text("Description", 1'024));
  for (const std::string& env : text_list(in, "EnvTypes")) {
    if (env != "prod") in.refuse("EnvTypes", "only prod is supported");
  }
  spec.set_owner(owner);
  spec.set_created_wall_ms(wall_ms);
  if (in.refusal()) return *in.refusal();
  return spec;
}

Result<std::vector<v1::Member>> members_of(const Json& body, const std::string& workspace_id,
                                           std::int64_t wall_ms) {
  Fields in(body);
  std::vector<v1::Member> members;
  const Json& list = in.get("Members");
  if (!list.is_array() || list.empty() || list.size() > 1'000) {
    in.refuse("Members", "1 to 1000 members must be given");
  }
  for (std::size_t i = 0; !in.refusal() && i < list.size(); ++i) {
    Fields one(list[i], "Members[" + std::to_string(i) + "]");
    v1::Member& member = members.emplace_back();
    member.set_user(one.name("UserId", 1, 64));
    member.set_id(workspace_id + "-" + member.user());
    member.set_created_wall_ms(wall_ms);
    const auto roles = text_list(one, "Roles");
    if (roles.empty()) one.refuse("Roles", "at least one role must be given");
    for (const std::string& role : roles) {
      if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
        one.refuse("Roles", api::shown(role) + " is no role" + did_you_mean(role, kRoles));
      }
      member.add_roles(role);
    }
    in.join(one);
  }
  if (in.refusal()) return *in.refusal();
  return members;
}

Result<std::vector<v1::QuotaBinding>> bindings_of(const Json& body) {
  Fields in(body);
  std::vector<v1::QuotaBinding> bindings;
  const Json& list = in.get("Resources");
  if (!list.is_array() || list.empty() || list.size() > 100) {
    in.refuse("Resources", "1 to 100 resources must be given");
  }
  for (std::size_t i = 0; !in.refusal() && i < list.size(); ++i) {
    Fields one(list[i], "Resources[" + std::to_string(i) + "]");
    const std::string product =
        one.one_of("ProductType", "", {"DLC", "EAS", "DSW", "PAI", "ECS", "Lingjun"});
    one.one_of("EnvType", "prod", {"prod"});
    std::vector<std::string> ids;
    const Json& quotas = one.get("Quotas");
    for (std::size_t q = 0; quotas.is_array() && q < quotas.size(); ++q) {
      Fields quota(quotas[q], one.path_of("Quotas") + "[" + std::to_string(q) + "]");
      ids.push_back(quota.required_text("Id", 128));
      one.join(quota);
    }
    if (one.has("Spec")) {
      Fields spec(one.get("Spec"), one.path_of("Spec"));
      ids.push_back(spec.required_text("resourceId", 128));
      one.join(spec);
    }
    if (ids.empty()) one.refuse("Spec", R"(give the quota as Spec {"resourceId": ID})");
    for (const std::string& id : ids) {
      v1::QuotaBinding& binding = bindings.emplace_back();
      binding.set_quota_id(id);
      if (product == "DLC") binding.add_products(v1::PRODUCT_JOB);
      if (product == "EAS") binding.add_products(v1::PRODUCT_SERVICE);
      if (product == "DSW") binding.add_products(v1::PRODUCT_INSTANCE);
    }
    in.join(one);
  }
  if (in.refusal()) return *in.refusal();
  return bindings;
}

Json workspace_json(const v1::WorkspaceSpec& spec) {
  return {{"WorkspaceId", spec.id()},
          {"WorkspaceName", spec.name()},
          {"DisplayName", spec.display_name().empty() ? spec.name() : spec.display_name()},
          {"Description", spec.description()},
          {"Creator", spec.owner()},
          {"AdminNames", Json::array({spec.owner()})},
          {"EnvTypes", Json::array({"prod"})},
          {"GmtCreateTime", time_text(spec.created_wall_ms())},
          {"IsDefault", false},
          {"Status", "ENABLED"}};
}

Json member_json(const v1::Member& member) {
  Json roles = Json::array();
  for (const std::string& role : member.roles()) roles.push_back(role);
  return {{"MemberId", member.id()},
          {"MemberName", member.user()},
          {"DisplayName", member.user()},
          {"AccountName", member.user()},
          {"UserId", member.user()},
          {"Roles", roles},
          {"GmtCreateTime", time_text(member.created_wall_ms())}};
}

Json binding_json(const v1::QuotaBinding& binding, const std::string& workspace_id,
                  const std::string& quota_name, const std::string& resource_type) {
  return {{"Id", workspace_id + "-" + binding.quota_id()},
          {"WorkspaceId", workspace_id},
          {"Name", quota_name},
          {"GroupName", quota_name},
          {"EnvType", "prod"},
          {"ProductType", binding.products_size() == 1 ? product_name(binding.products(0)) : "PAI"},
          {"ResourceType", resource_type},
          {"IsDefault", false},
          {"Quotas", Json::array({{{"Id", binding.quota_id()}, {"Name", quota_name}}})},
          {"Spec", {{"resourceId", binding.quota_id()}}}};
}

}  // namespace ebb::gateway
