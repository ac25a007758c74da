#include <algorithm>

#include "gateway/operations/operation.hpp"
#include "gateway/translation/common_json.hpp"
#include "gateway/translation/workspace_json.hpp"

namespace ebb::gateway {
namespace {

Task<Result<Json>> create_workspace(Desk& desk, Call call) {
  if (auto room = check_writable(desk); !room) co_return room.refusal();
  auto spec = workspace_of(call.body, new_id("ws"), call.user, desk.wall_ms());
  if (!spec) co_return spec.refusal();
  const std::string id = spec->id();
  v1::Envelope envelope;
  envelope.set_to("tenant");
  *envelope.mutable_tenant()->mutable_command()->mutable_create_workspace() = std::move(*spec);
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"WorkspaceId", id}};
}

Task<Result<Json>> get_workspace(Desk& desk, Call call) {
  auto record = co_await desk.workspace(call.path["WorkspaceId"]);
  if (!record) co_return record.refusal();
  Json out = workspace_json(record->spec());
  out["Owner"] = {{"UserId", record->spec().owner()}, {"UserName", record->spec().owner()}};
  co_return out;
}

Task<Result<Json>> list_workspaces(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto descending = descending_of(call.query, "Order", false);
  if (!descending) co_return descending.refusal();
  Fields in(call.query);
  const std::string sort = in.one_of("SortBy", "GmtCreateTime", {"GmtCreateTime", "WorkspaceName"});
  if (in.refusal()) co_return *in.refusal();
  auto found = desk.lists().workspaces();
  const auto ids = list_of(call.query, "WorkspaceIds");
  const std::string name = text_of(call.query, "WorkspaceName");
  std::erase_if(found, [&](const auto& one) {
    const bool id_right =
        ids.empty() || std::find(ids.begin(), ids.end(), one.spec().id()) != ids.end();
    return !id_right || one.spec().name().find(name) == std::string::npos;
  });
  if (sort == "WorkspaceName") {
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
      return a.spec().name() < b.spec().name();
    });
  }
  if (*descending) std::reverse(found.begin(), found.end());
  const auto total = found.size();
  Json list = Json::array();
  for (const auto& one : page_part(std::move(found), *page))
    list.push_back(workspace_json(one.spec()));
  co_return Json{{"Workspaces", std::move(list)}, {"TotalCount", total}};
}

Task<Result<Json>> create_member(Desk& desk, Call call) {
  const std::string id = call.path["WorkspaceId"];
  auto record = co_await desk.workspace(id);
  if (!record) co_return record.refusal();
  auto members = members_of(call.body, id, desk.wall_ms());
  if (!members) co_return members.refusal();
  Json list = Json::array();
  for (const v1::Member& member : *members) {
    v1::Envelope envelope;
    envelope.set_to("workspace/" + id);
    *envelope.mutable_workspace()->mutable_command()->mutable_set_member() = member;
    auto reply = co_await desk.ask(std::move(envelope));
    if (!reply) co_return reply.refusal();
    Json shown = member_json(member);
    list.push_back({{"MemberId", shown["MemberId"]},
                    {"UserId", shown["UserId"]},
                    {"DisplayName", shown["DisplayName"]},
                    {"Roles", shown["Roles"]}});
  }
  co_return Json{{"Members", std::move(list)}};
}

Task<Result<Json>> list_members(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto record = co_await desk.workspace(call.path["WorkspaceId"]);
  if (!record) co_return record.refusal();
  const auto roles = list_of(call.query, "Roles");
  const std::string user = text_of(call.query, "UserId");
  const std::string name = text_of(call.query, "MemberName");
  std::vector<v1::Member> found(record->members().begin(), record->members().end());
  std::erase_if(found, [&](const v1::Member& member) {
    if (!user.empty() && member.user() != user) return true;
    if (member.user().find(name) == std::string::npos) return true;
    return !roles.empty() && std::none_of(roles.begin(), roles.end(), [&](const auto& role) {
      return std::find(member.roles().begin(), member.roles().end(), role) != member.roles().end();
    });
  });
  const auto total = found.size();
  Json list = Json::array();
  for (const auto& member : page_part(std::move(found), *page)) list.push_back(member_json(member));
  co_return Json{{"Members", std::move(list)}, {"TotalCount", total}};
}

Task<Result<Json>> bind_quotas(Desk& desk, Call call) {
  const std::string id = call.path["WorkspaceId"];
  auto record = co_await desk.workspace(id);
  if (!record) co_return record.refusal();
  auto bindings = bindings_of(call.body);
  if (!bindings) co_return bindings.refusal();
  Json list = Json::array();
  for (v1::QuotaBinding& binding : *bindings) {
    auto quota = co_await desk.quota(binding.quota_id());
    if (!quota) co_return quota.refusal();
    binding.set_quota_name(quota->spec().name());
    v1::Envelope envelope;
    envelope.set_to("workspace/" + id);
    *envelope.mutable_workspace()->mutable_command()->mutable_bind_quota() = binding;
    auto reply = co_await desk.ask(std::move(envelope));
    if (!reply) co_return reply.refusal();
    list.push_back({{"Id", id + "-" + binding.quota_id()}});
  }
  const auto total = list.size();
  co_return Json{{"Resources", std::move(list)}, {"TotalCount", total}};
}

Task<Result<Json>> list_resources(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  const std::string wanted = text_of(call.query, "WorkspaceId");
  const auto quota_ids = list_of(call.query, "QuotaIds");
  const std::string name = text_of(call.query, "ResourceName");
  std::map<std::string, v1::QuotaSpec> quotas;
  for (const auto& quota : desk.lists().quotas()) quotas[quota.spec().quota_id()] = quota.spec();
  std::vector<Json> found;
  for (const auto& workspace : desk.lists().workspaces()) {
    if (!wanted.empty() && workspace.spec().id() != wanted) continue;
    for (const v1::QuotaBinding& binding : workspace.quotas()) {
      const v1::QuotaSpec& quota = quotas[binding.quota_id()];
      if (!quota_ids.empty() &&
          std::find(quota_ids.begin(), quota_ids.end(), binding.quota_id()) == quota_ids.end()) {
        continue;
      }
      if (quota.name().find(name) == std::string::npos) continue;
      found.push_back(
          binding_json(binding, workspace.spec().id(), quota.name(), quota.resource_type()));
    }
  }
  const auto total = found.size();
  Json list = Json::array();
  for (auto& one : page_part(std::move(found), *page)) list.push_back(std::move(one));
  co_return Json{{"Resources", std::move(list)}, {"TotalCount", total}};
}

/// `to` says to the workspace what to take away; the ids that were.
Task<Result<Json>> take_away(Desk& desk, std::string workspace, std::vector<std::string> ids,
                             std::string field,
                             void (*to)(v1::WorkspaceCommand*, const std::string&)) {
  if (ids.empty())
    co_return Refusal{"InvalidParameter", field + " is missing; it must be given", 400};
  auto record = co_await desk.workspace(workspace);
  if (!record) co_return record.refusal();
  for (const std::string& id : ids) {
    v1::Envelope envelope;
    envelope.set_to("workspace/" + workspace);
    to(envelope.mutable_workspace()->mutable_command(), id);
    auto reply = co_await desk.ask(std::move(envelope));
    if (!reply) co_return reply.refusal();
  }
  co_return Json(std::move(ids));
}

/// ResourceIds: ids of ListResources, or of the quotas themselves.
Task<Result<Json>> unbind_quotas(Desk& desk, Call call) {
  const std::string workspace = call.path["WorkspaceId"];
  auto ids = list_of(call.query, "ResourceIds");
  for (std::string& id : ids) {
    if (id.starts_with(workspace + "-")) id = id.substr(workspace.size() + 1);
  }
  auto done = co_await take_away(
      desk, workspace, std::move(ids), "ResourceIds",
      [](v1::WorkspaceCommand* command, const std::string& id) { command->set_unbind_quota(id); });
  if (!done) co_return done.refusal();
  co_return Json{{"ResourceIds", *done}};
}

Task<Result<Json>> delete_members(Desk& desk, Call call) {
  auto done = co_await take_away(
      desk, call.path["WorkspaceId"], list_of(call.query, "MemberIds"), "MemberIds",
      [](v1::WorkspaceCommand* command, const std::string& id) { command->set_remove_member(id); });
  if (!done) co_return done.refusal();
  co_return Json{{"Code", ""}, {"Message", ""}};
}

}  // namespace

void add_workspace_operations(OperationTable& table) {
  table.add("workspace", "CreateWorkspace", {}, kCreateWorkspaceFields, create_workspace);
  table.add("workspace", "GetWorkspace", {"Verbose"}, {}, get_workspace);
  table.add(
      "workspace", "ListWorkspaces",
      {"Order", "PageNumber", "PageSize", "SortBy", "Verbose", "WorkspaceIds", "WorkspaceName"}, {},
      list_workspaces);
  table.add("workspace", "CreateMember", {}, kCreateMemberFields, create_member);
  table.add("workspace", "ListMembers", {"MemberName", "PageNumber", "PageSize", "Roles", "UserId"},
            {}, list_members);
  table.add("workspace", "CreateWorkspaceResource", {}, kCreateWorkspaceResourceFields,
            bind_quotas);
  table.add("workspace", "DeleteWorkspaceResource", {"ResourceIds"}, {}, unbind_quotas);
  table.add("workspace", "DeleteMembers", {"MemberIds"}, {}, delete_members);
  table.add("workspace", "ListResources",
            {"PageNumber", "PageSize", "QuotaIds", "ResourceName", "Verbose", "WorkspaceId"}, {},
            list_resources);
}

}  // namespace ebb::gateway
