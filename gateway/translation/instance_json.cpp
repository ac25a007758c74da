#include "gateway/translation/instance_json.hpp"

#include <algorithm>

namespace ebb::gateway {

const api::Supported kCreateInstanceFields = {
    "Accessibility",
    "EnvironmentVariables",
    "ImageUrl",
    "InstanceName",
    "Labels",
    "OversoldType",
    "Priority",
    "RequestedResource.CPU",
    "RequestedResource.GPU",
    "RequestedResource.GPUType",
    "RequestedResource.Memory",
    "RequestedResource.SharedMemory",
    "ResourceId",
    "UserCommand.OnStart.Content",
    "UserId",
    "WorkspaceId",
};

namespace {
constexpr std::size_t kCommandBytesMax = 65'536;
constexpr std::int64_t kGraceMs = 30'000;
}  // namespace

Result<InstanceHome> instance_home_of(const Json& body) {
  Fields in(body);
  InstanceHome home{in.required_text("ResourceId", 128), in.required_text("WorkspaceId", 128)};
  if (in.refusal()) return *in.refusal();
  return home;
}

Result<v1::WorkloadSpec> instance_of(const Json& body, const InstanceHome& home,
                                     const Birth& birth) {
  Fields in(body);
  v1::WorkloadSpec spec;
  set_birth(birth, home.workspace_id, body, &spec);
  if (in.has("UserId")) spec.set_user(in.name("UserId", 1, 64));
  spec.set_product(v1::PRODUCT_INSTANCE);
  spec.set_name(in.name("InstanceName", 1, 64));
  spec.set_priority(static_cast<std::int32_t>(in.whole("Priority", 1, 1, 9)));
  spec.set_idle(idle_mode_of(in, "OversoldType"));
  spec.set_is_private(in.one_of("Accessibility", "PRIVATE", {"PRIVATE", "PUBLIC"}) == "PRIVATE");
  spec.set_grace_period_ms(kGraceMs);
  const Json& labels = in.get("Labels");
  for (const Json& label : labels.is_array() ? labels : Json::array()) {
    (*spec.mutable_labels())[label.value("Key", "")] = label.value("Value", "");
  }
  v1::RoleSpec* role = spec.add_roles();
  role->set_role("Instance");
  role->set_pods(1);
  role->set_restart_policy("Never");
  v1::LaunchSpec* launch = role->mutable_launch();
  std::string command = "exec sleep infinity";
  if (in.has("UserCommand") && in.get("UserCommand").contains("OnStart")) {
    Fields start(in.get("UserCommand")["OnStart"], "UserCommand.OnStart");
    if (start.has("Content")) command = start.required_text("Content", kCommandBytesMax);
    in.join(start);
  }
  set_shell_command(command, launch);
  const Json& envs = in.get("EnvironmentVariables");
  if (envs.is_object()) {
    for (const auto& [key, value] : envs.items()) (*launch->mutable_env())[key] = value;
  }
  if (in.has("ImageUrl")) (*launch->mutable_env())["EBB_IMAGE"] = in.text("ImageUrl", 1'024);
  launch->set_role("Instance");
  launch->set_job_id(spec.id());
  launch->set_display_name(spec.name());
  if (!in.has("RequestedResource"))
    in.refuse("RequestedResource", "GPU, CPU and Memory must be given");
  if (in.refusal()) return *in.refusal();

  Fields need(in.get("RequestedResource"), "RequestedResource");
  role->mutable_each()->set_gpu_milli(need.gpu_milli("GPU"));
  role->mutable_each()->set_cpu_milli(need.cpu_milli("CPU"));
  role->mutable_each()->set_memory_bytes(need.memory_bytes("Memory"));
  need.memory_bytes("SharedMemory");
  check_gpu_shape(need, "GPU", role->each().gpu_milli(), birth.quota);
  if (amount_of(role->each()).is_zero()) need.refuse("GPU", "an instance must ask for something");
  const std::string gpu_type = need.text("GPUType", 128);
  if (need.refusal()) return *need.refusal();
  if (auto product = check_product(v1::PRODUCT_INSTANCE, birth.quota); !product)
    return product.refusal();
  auto types = node_types_for(birth.tree, gpu_type, "RequestedResource.GPUType");
  if (!types) return types.refusal();
  for (const std::string& type : *types) spec.add_node_types(type);
  auto fits =
      check_can_ever_fit(birth.tree, *types, amount_of(role->each()), 1, "RequestedResource");
  if (!fits) return fits.refusal();
  return spec;
}

Json instance_json(const v1::WorkloadRecord& record, const std::string& workspace_name,
                   const std::string& quota_name, std::int64_t wall_ms) {
  const v1::WorkloadSpec& spec = record.spec();
  const Json request = request_of(spec);
  const auto [code, message] = reason_of(record);
  Json out = {
      {"InstanceId", spec.id()},
      {"InstanceName", spec.name()},
      {"Status", record.status()},
      {"ReasonCode", code},
      {"ReasonMessage", message},
      {"Priority", spec.priority()},
      {"ResourceId", spec.quota_id()},
      {"ResourceName", quota_name},
      {"WorkspaceId", spec.workspace_id()},
      {"WorkspaceName", workspace_name},
      {"UserId", spec.user()},
      {"UserName", spec.user()},
      {"Accessibility", spec.is_private() ? "PRIVATE" : "PUBLIC"},
      {"PaymentType", "PostPaid"},
      {"GmtCreateTime", time_text(spec.created_wall_ms())},
      {"GmtModifiedTime", time_text(std::max({record.running_wall_ms(), record.finished_wall_ms(),
                                              spec.created_wall_ms()}))}};
  if (spec.roles_size() > 0) {
    out["AcceleratorType"] = spec.roles(0).each().gpu_milli() > 0 ? "GPU" : "CPU";
  }
  for (const char* name : {"RequestedResource", "EnvironmentVariables", "Labels", "ImageUrl"}) {
    if (request.contains(name)) out[name] = request[name];
  }
  if (record.running_wall_ms() > 0) {
    const bool over = record.status() == "Stopped" || record.status() == "Failed";
    const std::int64_t end = over ? record.finished_wall_ms() : wall_ms;
    out["AccumulatedRunningTimeInMs"] = std::max<std::int64_t>(0, end - record.running_wall_ms());
  }
  return out;
}

}  // namespace ebb::gateway
