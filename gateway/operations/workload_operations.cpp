#include "gateway/operations/workload_operations.hpp"

namespace ebb::gateway {

Task<Result<Birth>> birth_of(Desk& desk, std::string prefix, std::string user, std::string quota_id,
                             std::string workspace_id) {
  if (auto room = check_writable(desk); !room) co_return room.refusal();
  Birth birth;
  birth.id = new_id(prefix);
  birth.user = std::move(user);
  birth.wall_ms = desk.wall_ms();
  auto quota = co_await desk.quota(quota_id);
  if (!quota) co_return quota.refusal();
  birth.quota = quota->spec();
  auto workspace = co_await desk.workspace(workspace_id);
  if (!workspace) co_return workspace.refusal();
  auto tenant = co_await desk.tenant();
  if (!tenant) co_return tenant.refusal();
  birth.tree = TreeFacts::of(*tenant, birth.quota.root_id());
  co_return birth;
}

Task<Result<std::string>> create_workload(Desk& desk, v1::WorkloadSpec spec,
                                          std::string client_token) {
  v1::Envelope envelope;
  envelope.set_to("workspace/" + spec.workspace_id());
  auto* create = envelope.mutable_workspace()->mutable_command()->mutable_create_workload();
  const std::string id = spec.id();
  *create->mutable_workload() = std::move(spec);
  create->set_client_token(std::move(client_token));
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return reply->id().empty() ? id : reply->id();
}

Task<Result<Json>> command_workload(Desk& desk, std::string address, v1::WorkloadCommand command,
                                    Json answer) {
  const std::string id = id_of_address(address);
  if (address.empty() || id.find_first_of("/#") != std::string::npos)
    co_return not_found("workload", id);
  v1::Envelope envelope;
  envelope.set_to(std::move(address));
  *envelope.mutable_workload()->mutable_command() = std::move(command);
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply && reply.refusal().http_status == 404) co_return not_found("workload", id);
  if (!reply) co_return reply.refusal();
  co_return answer;
}

Result<TimeRange> time_range_of(const Json& query) {
  TimeRange range;
  Fields in(query);
  const auto read = [&](const char* name, std::int64_t* out) {
    if (!in.has(name)) return;
    const auto time = time_of_text(in.text(name));
    if (time) {
      *out = *time;
    } else {
      in.refuse(name, "a time such as 2026-01-31T08:00:00Z is allowed");
    }
  };
  read("StartTime", &range.from_ms);
  read("EndTime", &range.to_ms);
  if (in.refusal()) return *in.refusal();
  return range;
}

}  // namespace ebb::gateway
