#include "gateway/translation/job_json.hpp"

#include <algorithm>
#include <map>

#include "base/nearest.hpp"
#include "gateway/translation/amount_text.hpp"

namespace ebb::gateway {

const api::Supported kCreateJobFields = {
    "Accessibility",
    "Description",
    "DisplayName",
    "Envs",
    "JobMaxRunningTimeMinutes",
    "JobSpecs.Image",
    "JobSpecs.OversoldType",
    "JobSpecs.PodCount",
    "JobSpecs.ResourceConfig.CPU",
    "JobSpecs.ResourceConfig.GPU",
    "JobSpecs.ResourceConfig.GPUType",
    "JobSpecs.ResourceConfig.Memory",
    "JobSpecs.ResourceConfig.SharedMemory",
    "JobSpecs.RestartPolicy",
    "JobSpecs.Type",
    "JobType",
    "Priority",
    "ResourceId",
    "Settings.EnableErrorMonitoringInAIMaster",
    "Settings.ErrorMonitoringArgs",
    "Settings.OversoldType",
    "Settings.Tags",
    "Settings.TerminationGracePeriodSeconds",
    "SuccessPolicy",
    "UserCommand",
    "WorkspaceId",
};
const api::Supported kUpdateJobFields = {"Accessibility", "Description", "Priority"};

namespace {

constexpr std::int64_t kPodsMax = 10'000;
constexpr std::int64_t kGraceSecondsMax = 86'400;
constexpr std::int64_t kRunMinutesMax = 365 * 24 * 60;

const std::map<std::string, std::vector<std::string>> kRolesByJobType = {
    {"PyTorchJob", {"Master", "Worker"}},        {"TFJob", {"Chief", "PS", "Worker", "Evaluator"}},
    {"MPIJob", {"Launcher", "Worker"}},          {"XGBoostJob", {"Master", "Worker"}},
    {"ElasticBatchJob", {"AIMaster", "Worker"}}, {"RayJob", {"Head", "Worker"}}};

std::vector<std::string> job_types() {
  std::vector<std::string> types;
  for (const auto& entry : kRolesByJobType) types.push_back(entry.first);
  return types;
}

void read_envs(Fields& in, v1::LaunchSpec* launch) {
  const Json& envs = in.get("Envs");
  if (envs.is_null()) return;
  for (const auto& [key, value] : envs.items()) {
    if (key.empty() || key.find('=') != std::string::npos || key.find('\0') != std::string::npos) {
      in.refuse("Envs", "a variable's name must not be empty or contain `=`");
      return;
    }
    (*launch->mutable_env())[key] = value.get<std::string>();
  }
}

void read_error_monitoring(Fields& in, v1::WorkloadSpec* spec) {
  spec->set_restarts_max(0);
  if (!in.flag("EnableErrorMonitoringInAIMaster", false)) {
    if (in.has("ErrorMonitoringArgs")) {
      in.refuse("ErrorMonitoringArgs", "EnableErrorMonitoringInAIMaster must be true for it");
    }
    return;
  }
  spec->set_fault_tolerance(true);
  spec->set_restarts_max(3);
  static const std::vector<std::string> kKnown = {"--max-num-of-job-restart",
                                                  "--job-execution-mode"};
  std::string text = in.text("ErrorMonitoringArgs", 4'096);
  std::replace(text.begin(), text.end(), ' ', ',');
  for (const std::string& argument : split_list(text)) {
    const auto equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (name == "--max-num-of-job-restart") {
      const auto number = milli_of_text(value, 1'000'000);
      if (!number || *number % 1'000 != 0) {
        in.refuse("ErrorMonitoringArgs", name + " takes a whole number from 0 to 1000");
        return;
      }
      spec->set_restarts_max(static_cast<std::uint32_t>(*number / 1'000));
    } else if (name == "--job-execution-mode") {
      if (value != "Sync") in.refuse("ErrorMonitoringArgs", name + ": only Sync is supported");
    } else {
      in.refuse("ErrorMonitoringArgs", api::shown(name) +
                                           " is not supported by Ebb; supported: " + kKnown[0] +
                                           ", " + kKnown[1] + did_you_mean(name, kKnown));
      return;
    }
  }
}

void read_roles(Fields& in, const Birth& birth, v1::WorkloadSpec* spec) {
  const Json& list = in.get("JobSpecs");
  if (!list.is_array() || list.empty()) {
    in.refuse("JobSpecs", "at least one role must be given");
    return;
  }
  const auto& roles = kRolesByJobType.at(spec->job_type());
  std::vector<std::string> seen;
  std::string gpu_type;
  for (std::size_t i = 0; !in.refusal() && i < list.size(); ++i) {
    Fields one(list[i], "JobSpecs[" + std::to_string(i) + "]");
    v1::RoleSpec* role = spec->add_roles();
    role->set_role(one.one_of("Type", "Worker", roles));
    if (std::find(seen.begin(), seen.end(), role->role()) != seen.end()) {
      one.refuse("Type", "each role once");
    }
    seen.push_back(role->role());
    role->set_pods(static_cast<std::uint32_t>(one.whole("PodCount", 1, 1, kPodsMax)));
    role->set_restart_policy(
        one.one_of("RestartPolicy", "Never", {"Always", "Never", "OnFailure", "ExitCode"}));
    if (one.has("OversoldType")) spec->set_idle(idle_mode_of(one, "OversoldType"));
    if (!one.has("ResourceConfig"))
      one.refuse("ResourceConfig", "GPU, CPU and Memory must be given");
    if (!one.refusal()) {
      Fields need(one.get("ResourceConfig"), one.path_of("ResourceConfig"));
      role->mutable_each()->set_gpu_milli(need.gpu_milli("GPU"));
      role->mutable_each()->set_cpu_milli(need.cpu_milli("CPU"));
      role->mutable_each()->set_memory_bytes(need.memory_bytes("Memory"));
      need.memory_bytes("SharedMemory");
      check_gpu_shape(need, "GPU", role->each().gpu_milli(), birth.quota);
      if (amount_of(role->each()).is_zero()) need.refuse("GPU", "a pod must ask for something");
      const std::string asked = need.text("GPUType", 128);
      if (!asked.empty() && !gpu_type.empty() && asked != gpu_type) {
        need.refuse("GPUType", "all roles of a job must ask for the same");
      }
      if (!asked.empty()) gpu_type = asked;
      one.join(need);
    }
    v1::LaunchSpec* launch = role->mutable_launch();
    set_shell_command(in.text("UserCommand", kJobRequestBytesMax), launch);
    read_envs(in, launch);
    if (one.has("Image")) (*launch->mutable_env())["EBB_IMAGE"] = one.text("Image", 1'024);
    launch->set_role(role->role());
    launch->set_job_id(spec->id());
    launch->set_display_name(spec->name());
    in.join(one);
  }
  if (in.refusal()) return;
  auto types = node_types_for(birth.tree, gpu_type, "JobSpecs[0].ResourceConfig.GPUType");
  if (!types) return in.refuse(types.refusal());
  for (const std::string& type : *types) spec->add_node_types(type);
  for (int i = 0; i < spec->roles_size(); ++i) {
    auto fits = check_can_ever_fit(birth.tree, *types, amount_of(spec->roles(i).each()),
                                   spec->roles(i).pods(), "JobSpecs[" + std::to_string(i) + "]");
    if (!fits) return in.refuse(fits.refusal());
  }
}

}  // namespace

Result<JobHome> job_home_of(const Json& body) {
  Fields in(body);
  JobHome home{in.required_text("ResourceId", 128), in.required_text("WorkspaceId", 128)};
  if (in.refusal()) return *in.refusal();
  return home;
}

Result<v1::WorkloadSpec> job_of(const Json& body, const JobHome& home, const Birth& birth) {
  Fields in(body);
  v1::WorkloadSpec spec;
  set_birth(birth, home.workspace_id, body, &spec);
  spec.set_product(v1::PRODUCT_JOB);
  spec.set_name(in.name("DisplayName", 1, 256));
  in.text("Description", 4'096);
  const std::string type = in.one_of("JobType", "", job_types());
  if (type.empty()) in.refuse("JobType", "it must be given, for instance PyTorchJob");
  spec.set_job_type(type);
  spec.set_priority(static_cast<std::int32_t>(in.whole("Priority", 1, 1, 9)));
  spec.set_is_private(in.one_of("Accessibility", "PRIVATE", {"PRIVATE", "PUBLIC"}) == "PRIVATE");
  spec.set_run_at_most_ms(in.whole("JobMaxRunningTimeMinutes", 0, 0, kRunMinutesMax) * 60'000);
  spec.set_success_policy(in.one_of("SuccessPolicy", "AllWorkers", {"AllWorkers", "ChiefWorker"}));
  spec.set_idle(v1::IDLE_MODE_FORBIDDEN);
  spec.set_grace_period_ms(30'000);
  in.required_text("UserCommand", kJobRequestBytesMax);
  if (in.has("Settings")) {
    Fields settings(in.get("Settings"), "Settings");
    spec.set_idle(idle_mode_of(settings, "OversoldType"));
    spec.set_grace_period_ms(
        settings.whole("TerminationGracePeriodSeconds", 30, 0, kGraceSecondsMax) * 1'000);
    read_error_monitoring(settings, &spec);
    const Json& tags = settings.get("Tags");
    if (tags.is_object()) {
      for (const auto& [key, value] : tags.items()) (*spec.mutable_labels())[key] = value;
    }
    in.join(settings);
  }
  if (in.refusal()) return *in.refusal();
  auto product = check_product(v1::PRODUCT_JOB, birth.quota);
  if (!product) return product.refusal();
  read_roles(in, birth, &spec);
  if (in.refusal()) return *in.refusal();
  return spec;
}

Result<v1::WorkloadUpdate> job_update_of(const Json& body, const v1::WorkloadSpec& now) {
  Fields in(body);
  v1::WorkloadUpdate update;
  update.set_priority(
      static_cast<std::int32_t>(in.has("Priority") ? in.whole("Priority", 1, 1, 9) : 0));
  if (in.has("Accessibility")) {
    const std::string access = in.one_of("Accessibility", "PRIVATE", {"PRIVATE", "PUBLIC"});
    update.set_is_private(access == "PRIVATE" ? "true" : "false");
  }
  if (in.has("Description")) {
    Json request = request_of(now);
    request["Description"] = in.text("Description", 4'096);
    update.set_request_json(request.dump());
  }
  if (in.refusal()) return *in.refusal();
  return update;
}

namespace {

Json pod_json(const PodView& pod, std::int64_t wall_ms) {
  Json out = {{"PodId", pod.pod_id},
              {"PodUid", pod.pod_id + "-" + std::to_string(pod.attempt)},
              {"Type", pod.role},
              {"Status", pod.status},
              {"SubStatus", pod.sub_status},
              {"ResourceType", pod.idle ? "Oversold" : "Normal"}};
  const v1::PodReport& report = pod.report;
  if (report.started_wall_ms() > 0) {
    const std::int64_t end = report.ended_wall_ms() > 0 ? report.ended_wall_ms() : wall_ms;
    out["GmtStartTime"] = time_text(report.started_wall_ms());
    out["Duration"] = std::max<std::int64_t>(0, end - report.started_wall_ms()) / 1'000;
  }
  if (report.ended_wall_ms() > 0) out["GmtFinishTime"] = time_text(report.ended_wall_ms());
  if (!pod.node_hidden) {
    out["NodeName"] = pod.place.node();
    out["Ip"] = report.host();
  }
  return out;
}

Json pods_json(const v1::WorkloadRecord& record, std::int64_t wall_ms) {
  Json pods = Json::array();
  std::map<std::string, Json> history;
  for (const v1::AttemptRecord& attempt : record.history()) {
    for (const PodView& pod : pods_of(record, attempt)) {
      Json& list = history[pod.pod_id];
      if (list.is_null()) list = Json::array();
      list.push_back(pod_json(pod, wall_ms));
    }
  }
  if (record.claims_size() > 0) {
    for (const PodView& pod : pods_of(record, record.claims(0))) {
      Json one = pod_json(pod, wall_ms);
      const auto earlier = history.find(pod.pod_id);
      one["HistoryPods"] = earlier == history.end() ? Json::array() : earlier->second;
      pods.push_back(std::move(one));
    }
    return pods;
  }
  for (auto& [id, list] : history) {  // over: the last attempt is what is left
    Json one = list.back();
    list.erase(list.size() - 1);
    one["HistoryPods"] = list;
    pods.push_back(std::move(one));
  }
  return pods;
}

Json restart_records(const v1::WorkloadRecord& record) {
  Json list = Json::array();
  int count = 0;
  for (const v1::AttemptRecord& attempt : record.history()) {
    if (attempt.outcome() == "Succeeded") continue;
    list.push_back(
        {{"JobRestartCount", ++count},
         {"OccurTime", time_text(attempt.ended_wall_ms())},
         {"OccurPhase", "Running"},
         {"Reason", attempt.has_preempt() ? attempt.preempt().sentence() : attempt.outcome()},
         {"RestartStatus", "Succeeded"}});
  }
  return list;
}

/// A time that has not come is left out.
void put_time(Json& out, const char* name, std::int64_t wall_ms) {
  if (wall_ms > 0) out[name] = time_text(wall_ms);
}

Json shared_json(const v1::WorkloadRecord& record, const std::string& workspace_name,
                 std::int64_t wall_ms) {
  const v1::WorkloadSpec& spec = record.spec();
  const auto [code, message] = reason_of(record);
  Json out = {{"JobId", spec.id()},
              {"DisplayName", spec.name()},
              {"JobType", spec.job_type()},
              {"Status", record.status()},
              {"SubStatus", record.sub_status()},
              {"ReasonCode", code},
              {"ReasonMessage", message},
              {"Priority", spec.priority()},
              {"ResourceId", spec.quota_id()},
              {"WorkspaceId", spec.workspace_id()},
              {"WorkspaceName", workspace_name},
              {"UserId", spec.user()},
              {"Accessibility", spec.is_private() ? "PRIVATE" : "PUBLIC"},
              {"RestartTimes",
               std::to_string(record.restarts_used()) + "/" + std::to_string(spec.restarts_max())},
              {"GmtCreateTime", time_text(spec.created_wall_ms())}};
  put_time(out, "GmtSubmittedTime", record.submitted_wall_ms());
  put_time(out, "GmtRunningTime", record.running_wall_ms());
  put_time(out, "GmtFinishTime", record.finished_wall_ms());
  const Json request = request_of(spec);
  for (const char* name : {"JobSpecs", "Envs", "UserCommand", "Settings"}) {
    if (request.contains(name)) out[name] = request[name];
  }
  const std::int64_t finished = record.finished_wall_ms();
  if (record.status() == "Succeeded") put_time(out, "GmtSuccessedTime", finished);
  if (record.status() == "Failed") put_time(out, "GmtFailedTime", finished);
  if (record.status() == "Stopped") put_time(out, "GmtStoppedTime", finished);
  if (record.running_wall_ms() > 0) {
    const std::int64_t end = record.finished_wall_ms() > 0 ? record.finished_wall_ms() : wall_ms;
    out["Duration"] = std::max<std::int64_t>(0, end - record.running_wall_ms()) / 1'000;
  }
  return out;
}

}  // namespace

Json job_json(const v1::WorkloadRecord& record, const std::string& workspace_name,
              std::int64_t wall_ms) {
  Json out = shared_json(record, workspace_name, wall_ms);
  const Json request = request_of(record.spec());
  if (request.contains("Description")) out["Description"] = request["Description"];
  out["Pods"] = pods_json(record, wall_ms);
  out["RestartRecord"] = restart_records(record);
  Json statuses = Json::array();
  for (const v1::RoleSpec& role : record.spec().roles()) {
    int active = 0;
    for (const Json& pod : out["Pods"]) {
      if (pod["Type"] == role.role() && pod["Status"] == "Running") ++active;
    }
    statuses.push_back({{"Type", role.role()}, {"Active", active}});
  }
  out["JobReplicaStatuses"] = statuses;
  return out;
}

Json job_item_json(const v1::WorkloadRecord& record, const std::string& workspace_name,
                   const std::string& quota_name, std::int64_t wall_ms) {
  Json out = shared_json(record, workspace_name, wall_ms);
  scheduling::Amount total;
  for (const v1::RoleSpec& role : record.spec().roles())
    total += amount_of(role.each()) * role.pods();
  out["ResourceName"] = quota_name;
  out["ResourceQuotaName"] = quota_name;
  out["UseOversoldResource"] = uses_idle(record);
  out["RequestGPU"] = text_of_milli(total.gpu_milli);
  out["RequestCPU"] = total.cpu_milli / 1'000;
  out["RequestMemory"] = text_of_bytes(total.memory_bytes);
  if (record.spec().run_at_most_ms() > 0) {
    out["JobMaxRunningTimeMinutes"] = record.spec().run_at_most_ms() / 60'000;
  }
  Json nodes = Json::array();
  for (const v1::ClaimRecord& claim : record.claims()) {
    for (const PodView& pod : pods_of(record, claim)) {
      const std::string& node = pod.place.node();
      if (!pod.node_hidden && !node.empty() &&
          std::find(nodes.begin(), nodes.end(), node) == nodes.end()) {
        nodes.push_back(node);
      }
    }
  }
  out["NodeNames"] = nodes;
  out["NodeCount"] = std::to_string(nodes.size());
  return out;
}

}  // namespace ebb::gateway
