#include <algorithm>
#include <map>

#include "gateway/operations/workload_operations.hpp"
#include "gateway/translation/service_json.hpp"

namespace ebb::gateway {
namespace {

/// A service by its name, or by its id. {ClusterId} is the region; any name is taken.
Result<std::string> service_address(const Desk& desk, const std::string& name) {
  if (name.starts_with("eas-")) return address_of_workload(name);
  WorkloadFilter filter;
  filter.product = v1::PRODUCT_SERVICE;
  filter.name = name;
  filter.whole_name = true;
  const auto found = desk.lists().workloads(filter, {.number = 1, .size = 2});
  if (found.items.empty()) return not_found("service", name);
  if (found.items.size() > 1) {
    return Refusal{
        "Ambiguous",
        "several workspaces have a service " + api::shown(name) + "; use the service's id", 409};
  }
  return "service/" + found.items.front().spec().id();
}

Task<Result<v1::WorkloadRecord>> service(Desk& desk, std::string name) {
  auto address = service_address(desk, name);
  if (!address) co_return address.refusal();
  auto record = co_await desk.workload(*address);
  if (!record && record.refusal().http_status == 404) co_return not_found("service", name);
  co_return record;
}

Task<Result<Json>> create_service(Desk& desk, Call call) {
  auto home = service_home_of(call.body, text_of(call.query, "WorkspaceId"));
  if (!home) co_return home.refusal();
  auto birth = co_await birth_of(desk, "eas-", call.user, home->quota_id, home->workspace_id);
  if (!birth) co_return birth.refusal();
  auto spec = service_of(call.body, *home, *birth);
  if (!spec) co_return spec.refusal();
  const std::string name = spec->name();
  auto id = co_await create_workload(desk, std::move(*spec), call.client_token);
  if (!id) co_return id.refusal();
  co_return Json{
      {"ServiceId", *id}, {"ServiceName", name}, {"Region", "ebb"}, {"Status", "Creating"}};
}

Task<Result<Json>> describe_service(Desk& desk, Call call) {
  auto record = co_await service(desk, call.path["ServiceName"]);
  if (!record) co_return record.refusal();
  co_return service_json(*record);
}

Task<Result<Json>> list_services(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto descending = descending_of(call.query);
  if (!descending) co_return descending.refusal();
  Fields in(call.query);
  WorkloadFilter filter;
  filter.product = v1::PRODUCT_SERVICE;
  filter.ids = list_of(call.query, "ServiceUid");
  filter.quota_ids = list_of(call.query, "QuotaId");
  filter.workspace_ids = list_of(call.query, "WorkspaceId");
  filter.statuses = list_of(call.query, "ServiceStatus");
  filter.users = list_of(call.query, "CallerUid");
  filter.name = text_of(call.query, "ServiceName");
  if (filter.name.empty()) filter.name = text_of(call.query, "Filter");
  if (call.query.contains("CronscalerEnabled"))
    filter.has_cron = in.flag("CronscalerEnabled", false);
  filter.descending = *descending;
  const std::string sort =
      in.one_of("Sort", "CreateTime", {"CreateTime", "ServiceName", "ServiceStatus"});
  filter.sort = sort == "ServiceName" ? "name" : sort == "ServiceStatus" ? "status" : "created";
  if (in.refusal()) co_return *in.refusal();
  const auto found = desk.lists().workloads(filter, *page);
  Json list = Json::array();
  for (const auto& record : found.items) list.push_back(service_json(record));
  co_return Json{{"Services", std::move(list)},
                 {"TotalCount", found.total},
                 {"PageNumber", page->number},
                 {"PageSize", page->size}};
}

Task<Result<Json>> list_instances(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto record = co_await service(desk, call.path["ServiceName"]);
  if (!record) co_return record.refusal();
  const auto names = list_of(call.query, "InstanceName");
  const auto statuses = list_of(call.query, "InstanceStatus");
  std::vector<Json> found;
  for (const Json& one : service_instances_json(*record)) {
    const auto is_in = [](const std::vector<std::string>& list, const Json& value) {
      return list.empty() ||
             std::find(list.begin(), list.end(), value.get<std::string>()) != list.end();
    };
    if (is_in(names, one["InstanceName"]) && is_in(statuses, one["Status"])) found.push_back(one);
  }
  const auto total = found.size();
  Json list = Json::array();
  for (auto& one : page_part(std::move(found), *page)) list.push_back(std::move(one));
  co_return Json{{"Instances", std::move(list)},
                 {"TotalCount", total},
                 {"PageNumber", page->number},
                 {"PageSize", page->size}};
}

Task<Result<Json>> order(Desk& desk, std::string name, v1::WorkloadCommand command,
                         std::string done) {
  auto address = service_address(desk, name);
  if (!address) co_return address.refusal();
  Json answer;
  answer["Message"] = "service " + name + " " + done;
  co_return co_await command_workload(desk, *address, std::move(command), std::move(answer));
}

/// More replicas than all nodes of the tree could hold are refused at once.
Task<Result<Json>> scale_to(Desk& desk, std::string name, std::uint32_t replicas,
                            std::string field) {
  auto record = co_await service(desk, name);
  if (!record) co_return record.refusal();
  const v1::WorkloadSpec& spec = record->spec();
  auto quota = co_await desk.quota(spec.quota_id());
  if (!quota) co_return quota.refusal();
  auto tenant = co_await desk.tenant();
  if (!tenant) co_return tenant.refusal();
  const std::vector<std::string> types(spec.node_types().begin(), spec.node_types().end());
  const auto each = spec.roles_size() > 0 ? amount_of(spec.roles(0).each()) : scheduling::Amount{};
  auto fits = check_can_ever_fit(TreeFacts::of(*tenant, quota->spec().root_id()), types, each,
                                 replicas, field);
  if (!fits) co_return fits.refusal();
  v1::WorkloadCommand command;
  command.set_scale(replicas);
  co_return co_await order(desk, std::move(name), std::move(command),
                           "is to have " + std::to_string(replicas) + " replicas");
}

Task<Result<Json>> update_service(Desk& desk, Call call) {
  auto replicas = replicas_of_update(call.body);
  if (!replicas) co_return replicas.refusal();
  co_return co_await scale_to(desk, call.path["ServiceName"], *replicas, "metadata.instance");
}

Task<Result<Json>> scale_service(Desk& desk, Call call) {
  auto replicas = replicas_of_scale(call.body);
  if (!replicas) co_return replicas.refusal();
  co_return co_await scale_to(desk, call.path["ServiceName"], *replicas, "Instance");
}

Task<Result<Json>> start_service(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_start(true);
  co_return co_await order(desk, call.path["ServiceName"], std::move(command), "is starting");
}

Task<Result<Json>> stop_service(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_stop(true);
  co_return co_await order(desk, call.path["ServiceName"], std::move(command), "is stopping");
}

Task<Result<Json>> delete_service(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_remove(true);
  co_return co_await order(desk, call.path["ServiceName"], std::move(command), "is being deleted");
}

Task<Result<Json>> set_cron(Desk& desk, Call call, bool must_exist) {
  const std::string name = call.path["ServiceName"];
  auto cron = cron_scaler_of(call.body);
  if (!cron) co_return cron.refusal();
  auto record = co_await service(desk, name);
  if (!record) co_return record.refusal();
  const bool exists = record->cron().jobs_size() > 0;
  if (exists != must_exist) {
    co_return Refusal{
        exists ? "AlreadyExists" : "NotFound",
        "service " + name +
            (exists ? " has a cron scaler already; update it" : " has no cron scaler"),
        exists ? 409 : 404};
  }
  v1::WorkloadCommand command;
  *command.mutable_set_cron() = std::move(*cron);
  co_return co_await order(desk, name, std::move(command), "scales by the clock");
}

Task<Result<Json>> create_cron(Desk& desk, Call call) {
  co_return co_await set_cron(desk, std::move(call), false);
}
Task<Result<Json>> update_cron(Desk& desk, Call call) {
  co_return co_await set_cron(desk, std::move(call), true);
}

Task<Result<Json>> describe_cron(Desk& desk, Call call) {
  auto record = co_await service(desk, call.path["ServiceName"]);
  if (!record) co_return record.refusal();
  if (record->cron().jobs_size() == 0) {
    co_return Refusal{"NotFound", "service " + record->spec().name() + " has no cron scaler", 404};
  }
  co_return cron_scaler_json(*record);
}

Task<Result<Json>> delete_cron(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_delete_cron(true);
  co_return co_await order(desk, call.path["ServiceName"], std::move(command),
                           "no longer scales by the clock");
}

}  // namespace

void add_service_operations(OperationTable& table) {
  table.add("eas", "CreateService", {"WorkspaceId"}, kServiceFields, create_service);
  table.add("eas", "DescribeService", {}, {}, describe_service);
  table.add("eas", "ListServices",
            {"CallerUid", "CronscalerEnabled", "Filter", "Order", "PageNumber", "PageSize",
             "QuotaId", "ServiceName", "ServiceStatus", "ServiceUid", "Sort", "WorkspaceId"},
            {}, list_services);
  table.add("eas", "ListServiceInstances",
            {"InstanceName", "InstanceStatus", "PageNumber", "PageSize"}, {}, list_instances);
  table.add("eas", "UpdateService", {}, kUpdateServiceFields, update_service);
  table.add("eas", "ScaleService", {}, {"Instance"}, scale_service);
  table.add("eas", "StartService", {}, {}, start_service);
  table.add("eas", "StopService", {}, {}, stop_service);
  table.add("eas", "DeleteService", {}, {}, delete_service);
  table.add("eas", "CreateServiceCronScaler", {}, {"ScaleJobs", "ExcludeDates"}, create_cron);
  table.add("eas", "UpdateServiceCronScaler", {}, {"ScaleJobs", "ExcludeDates"}, update_cron);
  table.add("eas", "DescribeServiceCronScaler", {}, {}, describe_cron);
  table.add("eas", "DeleteServiceCronScaler", {}, {}, delete_cron);
}

}  // namespace ebb::gateway
