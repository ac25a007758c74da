#include "gateway/translation/service_json.hpp"

#include <algorithm>
#include <set>

#include "gateway/translation/amount_text.hpp"
#include "scheduling/cron/cron.hpp"

namespace ebb::gateway {

const api::Supported kServiceFields = {
    "name",
    "metadata.instance",
    "metadata.cpu",
    "metadata.memory",
    "metadata.gpu",
    "metadata.gpu_type",
    "metadata.quota_id",
    "metadata.workspace_id",
    "metadata.resource",
    "metadata.name",
    "metadata.priority",
    "metadata.termination_grace_period",
    "metadata.node_types",
    "containers.command",
    "containers.script",
    "containers.image",
    "containers.port",
    "containers.env",
    "labels",
};
const api::Supported kUpdateServiceFields = {"name", "metadata.instance", "metadata.name"};

namespace {

constexpr std::int64_t kReplicasMax = 100'000;
constexpr std::int64_t kGraceSecondsMax = 86'400;
constexpr std::size_t kCommandBytesMax = 65'536;
constexpr std::size_t kScaleJobsMax = 100;

void read_container(Fields& in, v1::RoleSpec* role) {
  const Json& list = in.get("containers");
  if (!list.is_array() || list.size() != 1) {
    in.refuse("containers", "exactly one container must be given");
    return;
  }
  Fields one(list[0], "containers[0]");
  v1::LaunchSpec* launch = role->mutable_launch();
  if (one.has("command") == one.has("script")) {
    one.refuse(one.has("command") ? "command" : "script", "give either script or command");
  }
  set_shell_command(one.required_text(one.has("command") ? "command" : "script", kCommandBytesMax),
                    launch);
  launch->set_port(static_cast<std::uint32_t>(one.whole("port", 0, 0, 65'535)));
  const Json& env = one.get("env");
  for (std::size_t i = 0; env.is_array() && i < env.size(); ++i) {
    Fields variable(env[i], "containers[0].env[" + std::to_string(i) + "]");
    const std::string name = variable.required_text("name", 256);
    if (name.find('=') != std::string::npos) variable.refuse("name", "`=` is not allowed");
    (*launch->mutable_env())[name] = variable.text("value", kCommandBytesMax);
    one.join(variable);
  }
  if (one.has("image")) (*launch->mutable_env())["EBB_IMAGE"] = one.text("image", 1'024);
  in.join(one);
}

/// The number that `metadata.cpu` and `metadata.gpu` are, in thousandths.
std::int64_t milli_number(Fields& in, const char* name, std::int64_t at_most, const char* allowed) {
  if (!in.has(name)) return 0;
  const auto text = amount_text(in.get(name));
  const auto milli = text ? milli_of_text(*text, at_most) : std::nullopt;
  if (!milli) in.refuse(name, allowed);
  return milli.value_or(0);
}

}  // namespace

Result<ServiceHome> service_home_of(const Json& document, const std::string& workspace_id) {
  Fields in(document);
  if (!in.has("metadata")) in.refuse("metadata", "it must be given");
  if (in.refusal()) return *in.refusal();
  Fields metadata(in.get("metadata"), "metadata");
  ServiceHome home;
  home.quota_id = metadata.text("quota_id", 128);
  if (home.quota_id.empty()) home.quota_id = metadata.text("resource", 128);
  if (home.quota_id.empty()) metadata.refuse("quota_id", "it must be given");
  home.workspace_id =
      metadata.has("workspace_id") ? metadata.text("workspace_id", 128) : workspace_id;
  if (home.workspace_id.empty()) metadata.refuse("workspace_id", "it must be given");
  if (!workspace_id.empty() && home.workspace_id != workspace_id) {
    metadata.refuse("workspace_id", "the query has WorkspaceId " + api::shown(workspace_id));
  }
  if (metadata.refusal()) return *metadata.refusal();
  return home;
}

Result<v1::WorkloadSpec> service_of(const Json& document, const ServiceHome& home,
                                    const Birth& birth) {
  Fields in(document);
  Fields metadata(in.get("metadata"), "metadata");
  v1::WorkloadSpec spec;
  set_birth(birth, home.workspace_id, document, &spec);
  spec.set_product(v1::PRODUCT_SERVICE);
  if (in.has("name")) {
    spec.set_name(in.name("name", 1, 63));
  } else {
    spec.set_name(metadata.name("name", 1, 63));
  }
  if (spec.name().starts_with("eas-"))
    in.refuse("name", "a name must not look like an id (eas-...)");
  spec.set_replicas(static_cast<std::uint32_t>(metadata.whole("instance", 1, 0, kReplicasMax)));
  spec.set_priority(static_cast<std::int32_t>(metadata.whole("priority", 9, 1, 9)));
  spec.set_idle(v1::IDLE_MODE_FORBIDDEN);
  spec.set_grace_period_ms(metadata.whole("termination_grace_period", 30, 0, kGraceSecondsMax) *
                           1'000);
  v1::RoleSpec* role = spec.add_roles();
  role->set_role("Replica");
  role->set_pods(1);
  role->set_restart_policy("Always");
  role->mutable_each()->set_gpu_milli(milli_number(
      metadata, "gpu", kGpuMilliMax, "0 to 1000000 GPUs with at most three decimals are allowed"));
  role->mutable_each()->set_cpu_milli(
      milli_number(metadata, "cpu", kCpuMilliMax, "cores with at most three decimals are allowed"));
  role->mutable_each()->set_memory_bytes(metadata.whole("memory", 0, 0, kMemoryBytesMax >> 20)
                                         << 20);
  check_gpu_shape(metadata, "gpu", role->each().gpu_milli(), birth.quota);
  if (amount_of(role->each()).is_zero()) metadata.refuse("gpu", "a replica must ask for something");
  const std::string gpu_type = metadata.text("gpu_type", 128);
  const auto node_types = text_list(metadata, "node_types");
  in.join(metadata);
  const Json& labels = in.get("labels");
  if (labels.is_object()) {
    for (const auto& [key, value] : labels.items()) (*spec.mutable_labels())[key] = value;
  }
  if (in.refusal()) return *in.refusal();
  read_container(in, role);
  role->mutable_launch()->set_role("Replica");
  role->mutable_launch()->set_job_id(spec.id());
  role->mutable_launch()->set_display_name(spec.name());
  if (in.refusal()) return *in.refusal();

  if (auto product = check_product(v1::PRODUCT_SERVICE, birth.quota); !product)
    return product.refusal();
  auto types = node_types_for(birth.tree, gpu_type, "metadata.gpu_type");
  if (!types) return types.refusal();
  for (const std::string& type : node_types) {
    if (birth.tree.find(type) == nullptr) {
      return Refusal{"InvalidParameter",
                     "metadata.node_types has " + api::shown(type) + "; the quota's tree has " +
                         birth.tree.listed(),
                     400};
    }
    types->push_back(type);
  }
  for (const std::string& type : *types) spec.add_node_types(type);
  const std::uint64_t replicas = std::max<std::uint64_t>(1, spec.replicas());
  auto fits = check_can_ever_fit(birth.tree, *types, amount_of(role->each()), replicas,
                                 "metadata.instance");
  if (!fits) return fits.refusal();
  return spec;
}

Result<std::uint32_t> replicas_of_update(const Json& document) {
  Fields in(document);
  const Json none = Json::object();
  Fields metadata(in.has("metadata") ? in.get("metadata") : none, "metadata");
  if (!metadata.has("instance"))
    metadata.refuse("instance", "only the number of replicas can be changed");
  const std::int64_t replicas = metadata.whole("instance", 0, 0, kReplicasMax);
  if (metadata.refusal()) return *metadata.refusal();
  return static_cast<std::uint32_t>(replicas);
}

Result<std::uint32_t> replicas_of_scale(const Json& body) {
  Fields in(body);
  if (!in.has("Instance")) in.refuse("Instance", "it must be given");
  const std::int64_t replicas = in.whole("Instance", 0, 0, kReplicasMax);
  if (in.refusal()) return *in.refusal();
  return static_cast<std::uint32_t>(replicas);
}

Result<v1::CronScaler> cron_scaler_of(const Json& body) {
  Fields in(body);
  v1::CronScaler cron;
  const Json& jobs = in.get("ScaleJobs");
  if (!jobs.is_array() || jobs.empty() || jobs.size() > kScaleJobsMax) {
    in.refuse("ScaleJobs", "1 to 100 must be given");
  }
  std::set<std::string> names;
  for (std::size_t i = 0; !in.refusal() && i < jobs.size(); ++i) {
    Fields one(jobs[i], "ScaleJobs[" + std::to_string(i) + "]");
    v1::CronJob* job = cron.add_jobs();
    job->set_name(one.name("Name", 1, 64));
    if (!names.insert(job->name()).second) one.refuse("Name", "each name once");
    job->set_schedule(one.required_text("Schedule", 256));
    job->set_time_zone(one.has("TimeZone") ? one.required_text("TimeZone", 64) : "UTC");
    if (auto cron_text = scheduling::parse_cron(job->schedule(), one.path_of("Schedule"));
        !cron_text) {
      one.refuse(cron_text.refusal());
    }
    if (auto zone = scheduling::parse_time_zone(job->time_zone(), one.path_of("TimeZone")); !zone) {
      one.refuse(zone.refusal());
    }
    if (!one.has("TargetSize")) one.refuse("TargetSize", "it must be given");
    job->set_target_size(static_cast<std::uint32_t>(one.whole("TargetSize", 0, 0, kReplicasMax)));
    in.join(one);
  }
  const auto dates = text_list(in, "ExcludeDates");
  if (dates.size() > kScaleJobsMax) in.refuse("ExcludeDates", "at most 100 are allowed");
  for (std::size_t i = 0; i < dates.size(); ++i) {
    auto date = scheduling::parse_cron(dates[i], "ExcludeDates[" + std::to_string(i) + "]");
    if (!date) in.refuse(date.refusal());
    cron.add_exclude_dates(dates[i]);
  }
  if (in.refusal()) return *in.refusal();
  return cron;
}

namespace {

/// The service notes from when on it looks for firings; only a moment of the schedule is one.
bool has_fired(const v1::CronJob& job) {
  auto expression = scheduling::parse_cron(job.schedule(), "Schedule");
  auto zone = scheduling::parse_time_zone(job.time_zone(), "TimeZone");
  if (!expression || !zone || job.last_fired_wall_ms() <= 0) return false;
  const scheduling::CronSchedule schedule{*expression, *zone, {}};
  return scheduling::next_after(schedule, job.last_fired_wall_ms() - 1) == job.last_fired_wall_ms();
}

}  // namespace

Json cron_scaler_json(const v1::WorkloadRecord& record) {
  Json jobs = Json::array();
  for (const v1::CronJob& job : record.cron().jobs()) {
    const bool fired = has_fired(job);
    jobs.push_back(
        {{"Name", job.name()},
         {"Schedule", job.schedule()},
         {"TargetSize", job.target_size()},
         {"State", fired ? "Succeed" : "Submitted"},
         {"LastProbeTime", time_text(fired ? job.last_fired_wall_ms() : 0)},
         {"Message", fired ? "scaled to " + std::to_string(job.target_size()) + " replicas" : ""}});
  }
  Json dates = Json::array();
  for (const std::string& date : record.cron().exclude_dates()) dates.push_back(date);
  return {{"ServiceName", record.spec().name()}, {"ScaleJobs", jobs}, {"ExcludeDates", dates}};
}

namespace {

bool is_wanted(const v1::ClaimRecord& claim) {
  return claim.wanted() && claim.phase() != v1::CLAIM_PHASE_GONE;
}

}  // namespace

Json service_json(const v1::WorkloadRecord& record) {
  const v1::WorkloadSpec& spec = record.spec();
  std::int64_t running = 0;
  for (const v1::ClaimRecord& claim : record.claims()) {
    if (is_wanted(claim) && claim.phase() == v1::CLAIM_PHASE_RUNNING) ++running;
  }
  const std::int64_t wanted = record.replicas_wanted();
  const auto [code, message] = reason_of(record);
  const scheduling::Amount each =
      spec.roles_size() > 0 ? amount_of(spec.roles(0).each()) : scheduling::Amount{};
  Json labels = Json::array();
  for (const auto& [key, value] : spec.labels())
    labels.push_back({{"LabelKey", key}, {"LabelValue", value}});
  Json out = {{"ServiceId", spec.id()},
              {"ServiceUid", spec.id()},
              {"ServiceName", spec.name()},
              {"Status", record.status()},
              {"Reason", code},
              {"Message", message},
              {"QuotaId", spec.quota_id()},
              {"Resource", spec.quota_id()},
              {"WorkspaceId", spec.workspace_id()},
              {"CallerUid", spec.user()},
              {"TotalInstance", wanted},
              {"RunningInstance", running},
              {"PendingInstance", std::max<std::int64_t>(0, wanted - running)},
              {"Cpu", each.cpu_milli / 1'000},
              {"Memory", each.memory_bytes >> 20},
              {"Gpu", each.gpu_milli / 1'000},
              {"CronscalerEnabled", record.cron().jobs_size() > 0},
              {"AutoscalerEnabled", false},
              {"Labels", labels},
              {"CreateTime", time_text(spec.created_wall_ms())},
              {"ServiceConfig", spec.request_json()},
              {"Role", "Standalone"},
              {"Weight", 100}};
  if (each.gpu_milli % 1'000 != 0) out["GPUCorePercentage"] = each.gpu_milli / 10;
  return out;
}

Json service_instances_json(const v1::WorkloadRecord& record) {
  Json list = Json::array();
  std::map<std::uint32_t, int> restarts;
  for (const v1::AttemptRecord& attempt : record.history()) ++restarts[attempt.index()];
  for (const v1::ClaimRecord& claim : record.claims()) {
    const PodView pod = pods_of(record, claim).at(0);
    if (!is_wanted(claim) && pod.status != "Running") continue;
    Json one = {{"InstanceName", pod.pod_id},
                {"Status", claim.phase() == v1::CLAIM_PHASE_LEAVING ? "Terminating" : pod.status},
                {"Role", "Standalone"},
                {"ResourceType", "Quota"},
                {"RestartCount", restarts[claim.index()]},
                {"TotalProcesses", 1},
                {"ReadyProcesses", pod.status == "Running" ? 1 : 0},
                {"IsLatest", true},
                {"CreateTime", time_text(claim.since_wall_ms())},
                {"StartTime", time_text(pod.report.started_wall_ms())},
                {"Reason", pod.sub_status}};
    if (!pod.node_hidden) {
      one["HostName"] = pod.place.node();
      one["HostIP"] = pod.report.host();
      one["InnerIP"] = pod.report.host();
    }
    if (pod.report.port() > 0) one["InstancePort"] = pod.report.port();
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace ebb::gateway
