#include <map>

#include "gateway/operations/workload_operations.hpp"
#include "gateway/translation/instance_json.hpp"

namespace ebb::gateway {
namespace {

std::string name_in(const std::map<std::string, std::string>& names, const std::string& id) {
  const auto it = names.find(id);
  return it == names.end() ? std::string{} : it->second;
}

std::string instance_address(const std::string& id) {
  return id.starts_with("dsw-") ? address_of_workload(id) : std::string{};
}

/// The answers of this product carry these beside the id.
Json success(const std::string& id) {
  return {{"InstanceId", id},
          {"Success", true},
          {"Code", ""},
          {"Message", ""},
          {"HttpStatusCode", 200}};
}

Task<Result<Json>> create_instance(Desk& desk, Call call) {
  auto home = instance_home_of(call.body);
  if (!home) co_return home.refusal();
  auto birth = co_await birth_of(desk, "dsw-", call.user, home->quota_id, home->workspace_id);
  if (!birth) co_return birth.refusal();
  auto spec = instance_of(call.body, *home, *birth);
  if (!spec) co_return spec.refusal();
  auto id = co_await create_workload(desk, std::move(*spec), call.client_token);
  if (!id) co_return id.refusal();
  co_return success(*id);
}

Task<Result<Json>> get_instance(Desk& desk, Call call) {
  const std::string id = call.path["InstanceId"];
  const std::string address = instance_address(id);
  if (address.empty()) co_return not_found("instance", id);
  auto record = co_await desk.workload(address);
  if (!record && record.refusal().http_status == 404) co_return not_found("instance", id);
  if (!record) co_return record.refusal();
  Json out =
      instance_json(*record, name_in(workspace_names(desk.lists()), record->spec().workspace_id()),
                    name_in(quota_names(desk.lists()), record->spec().quota_id()), desk.wall_ms());
  out.update(success(id));
  co_return out;
}

Task<Result<Json>> list_instances(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto descending = descending_of(call.query);
  if (!descending) co_return descending.refusal();
  Fields in(call.query);
  WorkloadFilter filter;
  filter.product = v1::PRODUCT_INSTANCE;
  filter.ids = list_of(call.query, "InstanceId");
  filter.quota_ids = list_of(call.query, "ResourceId");
  filter.workspace_ids = list_of(call.query, "WorkspaceId");
  filter.statuses = list_of(call.query, "Status");
  filter.users = list_of(call.query, "CreateUserId");
  filter.name = text_of(call.query, "InstanceName");
  filter.descending = *descending;
  const std::string access = in.one_of("Accessibility", "", {"PRIVATE", "PUBLIC"});
  if (!access.empty()) filter.is_private = access == "PRIVATE";
  static const std::map<std::string, std::string> kSorts = {{"GmtCreateTime", "created"},
                                                            {"InstanceName", "name"},
                                                            {"Priority", "priority"},
                                                            {"Status", "status"}};
  filter.sort = kSorts.at(in.one_of("SortBy", "GmtCreateTime",
                                    {"GmtCreateTime", "InstanceName", "Priority", "Status"}));
  if (in.refusal()) co_return *in.refusal();
  const auto quotas = quota_names(desk.lists());
  const auto workspaces = workspace_names(desk.lists());
  const auto found = desk.lists().workloads(filter, *page);
  Json list = Json::array();
  for (const auto& record : found.items) {
    Json one = instance_json(record, name_in(workspaces, record.spec().workspace_id()),
                             name_in(quotas, record.spec().quota_id()), desk.wall_ms());
    one["OversoldType"] = idle_mode_name(record.spec().idle());
    one["OversoldInfo"] = uses_idle(record) ? "Not in Quota" : "In Quota";
    list.push_back(std::move(one));
  }
  co_return Json{{"Instances", std::move(list)},
                 {"TotalCount", found.total},
                 {"Success", true},
                 {"HttpStatusCode", 200}};
}

Task<Result<Json>> order(Desk& desk, std::string id, v1::WorkloadCommand command) {
  co_return co_await command_workload(desk, instance_address(id), std::move(command), success(id));
}

Task<Result<Json>> start_instance(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_start(true);
  co_return co_await order(desk, call.path["InstanceId"], std::move(command));
}

Task<Result<Json>> stop_instance(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_stop(true);
  co_return co_await order(desk, call.path["InstanceId"], std::move(command));
}

Task<Result<Json>> delete_instance(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_remove(true);
  co_return co_await order(desk, call.path["InstanceId"], std::move(command));
}

}  // namespace

void add_instance_operations(OperationTable& table) {
  table.add("dsw", "CreateInstance", {}, kCreateInstanceFields, create_instance);
  table.add("dsw", "GetInstance", {}, {}, get_instance);
  table.add("dsw", "ListInstances",
            {"Accessibility", "CreateUserId", "InstanceId", "InstanceName", "Order", "PageNumber",
             "PageSize", "ResourceId", "SortBy", "Status", "WorkspaceId"},
            {}, list_instances);
  table.add("dsw", "StartInstance", {}, {}, start_instance);
  table.add("dsw", "StopInstance", {}, {}, stop_instance);
  table.add("dsw", "DeleteInstance", {}, {}, delete_instance);
}

}  // namespace ebb::gateway
