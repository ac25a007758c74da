#include <algorithm>

#include "gateway/operations/workload_operations.hpp"
#include "gateway/pod_log.hpp"
#include "gateway/translation/job_json.hpp"

namespace ebb::gateway {
namespace {

constexpr std::int64_t kListedByDefaultMs = 7LL * 86'400'000;

std::string name_in(const std::map<std::string, std::string>& names, const std::string& id) {
  const auto it = names.find(id);
  return it == names.end() ? std::string{} : it->second;
}

// Made outside of co_await expressions: g++ 12 does not compile initializer lists within them.
Json job_answer(const std::string& id) { return {{"JobId", id}}; }

/// Only a job's id leads to a job.
std::string job_address(const std::string& id) {
  return id.starts_with("dlc") ? address_of_workload(id) : std::string{};
}

Task<Result<v1::WorkloadRecord>> job(Desk& desk, std::string id) {
  const std::string address = job_address(id);
  if (address.empty()) co_return not_found("job", id);
  auto record = co_await desk.workload(address);
  if (!record && record.refusal().http_status == 404) co_return not_found("job", id);
  co_return record;
}

Task<Result<Json>> create_job(Desk& desk, Call call) {
  auto home = job_home_of(call.body);
  if (!home) co_return home.refusal();
  auto birth = co_await birth_of(desk, "dlc", call.user, home->quota_id, home->workspace_id);
  if (!birth) co_return birth.refusal();
  auto spec = job_of(call.body, *home, *birth);
  if (!spec) co_return spec.refusal();
  auto id = co_await create_workload(desk, std::move(*spec), call.client_token);
  if (!id) co_return id.refusal();
  co_return Json{{"JobId", *id}};
}

Task<Result<Json>> get_job(Desk& desk, Call call) {
  auto record = co_await job(desk, call.path["JobId"]);
  if (!record) co_return record.refusal();
  const auto names = workspace_names(desk.lists());
  co_return job_json(*record, name_in(names, record->spec().workspace_id()), desk.wall_ms());
}

Result<WorkloadFilter> filter_of(const Json& query, std::int64_t wall_ms) {
  Fields in(query);
  WorkloadFilter filter;
  filter.product = v1::PRODUCT_JOB;
  filter.ids = list_of(query, "JobIds");
  for (const std::string& id : list_of(query, "JobId")) filter.ids.push_back(id);
  filter.quota_ids = list_of(query, "ResourceIds");
  for (const std::string& id : list_of(query, "ResourceId")) filter.quota_ids.push_back(id);
  filter.workspace_ids = list_of(query, "WorkspaceId");
  filter.statuses = list_of(query, "Status");
  filter.job_types = list_of(query, "JobType");
  filter.users = list_of(query, "UserIdForFilter");
  for (const std::string& user : list_of(query, "Username")) filter.users.push_back(user);
  filter.name = text_of(query, "DisplayName");
  const std::string mode =
      in.one_of("DisplayNameSearchMode", "Fuzzy", {"Fuzzy", "Exact", "fuzzy", "exact"});
  filter.whole_name = mode == "Exact" || mode == "exact";
  const std::string access = in.one_of("Accessibility", "", {"PRIVATE", "PUBLIC"});
  if (!access.empty()) filter.is_private = access == "PRIVATE";
  const std::string idle =
      in.one_of("OversoldInfo", "", {"InQuota", "NotInQuota", "In Quota", "Not in Quota"});
  if (!idle.empty()) filter.uses_idle = idle.starts_with("Not");
  static const std::map<std::string, std::string> kSorts = {
      {"GmtCreateTime", "created"}, {"DisplayName", "name"},       {"Status", "status"},
      {"Priority", "priority"},     {"GmtFinishTime", "finished"}, {"RequestGPU", "gpu"}};
  std::vector<std::string> sorts;
  for (const auto& entry : kSorts) sorts.push_back(entry.first);
  filter.sort = kSorts.at(in.one_of("SortBy", "GmtCreateTime", sorts));
  if (in.refusal()) return *in.refusal();
  auto descending = descending_of(query);
  if (!descending) return descending.refusal();
  filter.descending = *descending;
  auto range = time_range_of(query);
  if (!range) return range.refusal();
  if (query.contains("EndTime")) filter.created_to_ms = range->to_ms;
  if (query.contains("StartTime")) {
    filter.created_from_ms = range->from_ms;
  } else if (filter.ids.empty()) {
    filter.created_from_ms = wall_ms - kListedByDefaultMs;
  }
  return filter;
}

Task<Result<Json>> list_jobs(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto filter = filter_of(call.query, desk.wall_ms());
  if (!filter) co_return filter.refusal();
  const auto quotas = quota_names(desk.lists());
  const std::string quota_name = text_of(call.query, "ResourceQuotaName");
  if (!quota_name.empty()) {
    for (const auto& [id, name] : quotas) {
      if (name == quota_name) filter->quota_ids.push_back(id);
    }
    if (filter->quota_ids.empty()) co_return Json{{"Jobs", Json::array()}, {"TotalCount", 0}};
  }
  if (call.query.value("ShowOwn", false)) filter->users = {call.user};
  const auto workspaces = workspace_names(desk.lists());
  const auto found = desk.lists().workloads(*filter, *page);
  Json list = Json::array();
  for (const auto& record : found.items) {
    list.push_back(job_item_json(record, name_in(workspaces, record.spec().workspace_id()),
                                 name_in(quotas, record.spec().quota_id()), desk.wall_ms()));
  }
  co_return Json{{"Jobs", std::move(list)}, {"TotalCount", found.total}};
}

Task<Result<Json>> stop_job(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_stop(true);
  const std::string id = call.path["JobId"];
  co_return co_await command_workload(desk, job_address(id), std::move(command), job_answer(id));
}

Task<Result<Json>> delete_job(Desk& desk, Call call) {
  v1::WorkloadCommand command;
  command.set_remove(true);
  const std::string id = call.path["JobId"];
  co_return co_await command_workload(desk, job_address(id), std::move(command), job_answer(id));
}

Task<Result<Json>> update_job(Desk& desk, Call call) {
  const std::string id = call.path["JobId"];
  auto record = co_await job(desk, id);
  if (!record) co_return record.refusal();
  auto update = job_update_of(call.body, record->spec());
  if (!update) co_return update.refusal();
  v1::WorkloadCommand command;
  *command.mutable_update() = std::move(*update);
  co_return co_await command_workload(desk, job_address(id), std::move(command), job_answer(id));
}

Task<Result<Json>> get_job_events(Desk& desk, Call call) {
  auto record = co_await job(desk, call.path["JobId"]);
  if (!record) co_return record.refusal();
  auto range = time_range_of(call.query);
  if (!range) co_return range.refusal();
  Fields in(call.query);
  const auto at_most = static_cast<std::size_t>(in.whole("MaxEventsNum", 2'000, 1, 2'000));
  if (in.refusal()) co_return *in.refusal();
  co_return Json{{"JobId", record->spec().id()},
                 {"Events", events_json(*record, range->from_ms, range->to_ms, at_most)}};
}

Task<Result<Json>> get_pod_events(Desk& desk, Call call) {
  auto events = co_await get_job_events(desk, call);
  if (!events) co_return events.refusal();
  // Events are kept by workload; those that name a pod are this pod's only if it is this one.
  const std::string pod = call.path["PodId"];
  const std::string others = call.path["JobId"] + "-";
  Json mine = Json::array();
  for (const Json& line : (*events)["Events"]) {
    const auto text = line.get<std::string>();
    if (text.find(others) == std::string::npos || text.find(pod) != std::string::npos) {
      mine.push_back(line);
    }
  }
  co_return Json{{"JobId", call.path["JobId"]}, {"PodId", pod}, {"Events", std::move(mine)}};
}

Task<Result<Json>> get_pod_logs(Desk& desk, Call call) {
  auto record = co_await job(desk, call.path["JobId"]);
  if (!record) co_return record.refusal();
  Fields in(call.query);
  const auto lines = static_cast<std::size_t>(in.whole("MaxLines", 2'000, 1, 10'000));
  if (in.refusal()) co_return *in.refusal();
  const v1::PodReport* pod = find_pod(*record, call.path["PodId"]);
  if (pod == nullptr) {
    co_return Refusal{
        "NotFound",
        "job " + call.path["JobId"] + " has no started pod " + api::shown(call.path["PodId"]), 404};
  }
  auto log = last_lines(pod->log_path(), lines);
  if (!log) co_return log.refusal();
  co_return Json{{"JobId", call.path["JobId"]}, {"PodId", call.path["PodId"]}, {"Logs", *log}};
}

}  // namespace

void add_job_operations(OperationTable& table) {
  table.add("dlc", "CreateJob", {}, kCreateJobFields, create_job, kJobRequestBytesMax);
  table.add("dlc", "GetJob", {"NeedDetail"}, {}, get_job);
  table.add("dlc", "ListJobs",
            {"Accessibility",
             "DisplayName",
             "DisplayNameSearchMode",
             "EndTime",
             "FromAllWorkspaces",
             "JobId",
             "JobIds",
             "JobType",
             "Order",
             "OversoldInfo",
             "PageNumber",
             "PageSize",
             "ResourceId",
             "ResourceIds",
             "ResourceQuotaName",
             "ShowOwn",
             "SortBy",
             "StartTime",
             "Status",
             "UserIdForFilter",
             "Username",
             "WorkspaceId"},
            {}, list_jobs);
  table.add("dlc", "StopJob", {}, {}, stop_job);
  table.add("dlc", "DeleteJob", {}, {}, delete_job);
  table.add("dlc", "UpdateJob", {}, kUpdateJobFields, update_job);
  table.add("dlc", "GetJobEvents", {"EndTime", "MaxEventsNum", "StartTime"}, {}, get_job_events);
  table.add("dlc", "GetPodEvents", {"EndTime", "MaxEventsNum", "StartTime"}, {}, get_pod_events);
  table.add("dlc", "GetPodLogs", {"MaxLines"}, {}, get_pod_logs);
}

}  // namespace ebb::gateway
