#include "actors/workspace/workspace_machine.hpp"

#include <algorithm>

#include "actors/records.hpp"

namespace ebb::actors {
namespace {
constexpr const char* kKnownRoles[] = {"PAI.WorkspaceOwner", "PAI.WorkspaceAdmin",
                                       "PAI.AlgoDeveloper",  "PAI.AlgoOperator",
                                       "PAI.LabelManager",   "PAI.WorkspaceGuest"};

bool role_may_submit(const std::string& role) {
  return role == "PAI.WorkspaceOwner" || role == "PAI.WorkspaceAdmin" ||
         role == "PAI.AlgoDeveloper" || role == "PAI.AlgoOperator";
}
const char* address_kind(v1::Product product) {
  switch (product) {
    case v1::PRODUCT_SERVICE:
      return "service/";
    case v1::PRODUCT_INSTANCE:
      return "instance/";
    default:
      return "job/";
  }
}
}  // namespace

WorkspaceMachine::WorkspaceMachine(const Context& context, const std::vector<v1::Record>& records)
    : context_(context) {
  for (const v1::Record& record : records) {
    if (record.kind() == "WorkspaceRecord") record_.ParseFromString(record.body());
    v1::TokenRecord part;
    if (record.kind() == "TokenRecord" && part.ParseFromString(record.body())) {
      tokens_[part.token()] = part.id();
    }
    if (record.kind() == "NameRecord" && part.ParseFromString(record.body())) {
      names_[part.token()] = part.id();
    }
  }
}

void WorkspaceMachine::handle(const v1::Envelope& envelope, Instant now, Effects& effects) {
  const v1::WorkspaceCommand& command = envelope.workspace().command();
  switch (command.command_case()) {
    case v1::WorkspaceCommand::kCreateWorkload:
      return create_workload(command, envelope, now, effects);
    case v1::WorkspaceCommand::kBindQuota:
      return bind(command.bind_quota(), envelope, effects);
    case v1::WorkspaceCommand::kUnbindQuota: {
      auto& quotas = *record_.mutable_quotas();
      for (int i = 0; i < quotas.size(); ++i) {
        if (quotas[i].quota_id() != command.unbind_quota()) continue;
        quotas.DeleteSubrange(i, 1);
        save(effects);
        return answer(envelope, command.unbind_quota(), effects);
      }
      return effects.refuse(envelope,
                            {"NotFound",
                             "ResourceIds: quota \"" + command.unbind_quota() +
                                 "\" is not bound to workspace \"" + record_.spec().name() + "\"",
                             404});
    }
    case v1::WorkspaceCommand::kSetMember:
      return set_member(command.set_member(), envelope, effects);
    case v1::WorkspaceCommand::kRemoveMember: {
      auto& members = *record_.mutable_members();
      for (int i = 0; i < members.size(); ++i) {
        if (members[i].id() != command.remove_member() &&
            members[i].user() != command.remove_member()) {
          continue;
        }
        members.DeleteSubrange(i, 1);
        save(effects);
        return answer(envelope, command.remove_member(), effects);
      }
      return effects.refuse(
          envelope,
          {"NotFound", "MemberIds: \"" + command.remove_member() + "\" is not a member", 404});
    }
    case v1::WorkspaceCommand::kDescribe: {
      v1::Reply reply;
      reply.set_id(record_.spec().id());
      record_.SerializeToString(reply.mutable_body());
      return effects.reply(envelope, std::move(reply));
    }
    case v1::WorkspaceCommand::kForgetWorkload: {
      for (auto it = names_.begin(); it != names_.end(); ++it) {
        if (it->second != command.forget_workload()) continue;
        effects.erase(context_.address + "#name/" + it->first, "NameRecord");
        names_.erase(it);
        break;
      }
      return answer(envelope, command.forget_workload(), effects);
    }
    case v1::WorkspaceCommand::kUpdate:
      if (!command.update().display_name().empty()) {
        record_.mutable_spec()->set_display_name(command.update().display_name());
      }
      if (!command.update().description().empty()) {
        record_.mutable_spec()->set_description(command.update().description());
      }
      save(effects);
      return answer(envelope, record_.spec().id(), effects);
    case v1::WorkspaceCommand::COMMAND_NOT_SET:
      break;
  }
  effects.refuse(envelope, {"InvalidParameter", "the command is empty", 400});
}

void WorkspaceMachine::create_workload(const v1::WorkspaceCommand& command,
                                       const v1::Envelope& envelope, Instant now,
                                       Effects& effects) {
  const v1::CreateWorkload& wanted = command.create_workload();
  v1::WorkloadSpec spec = wanted.workload();
  if (!wanted.client_token().empty()) {
    const auto known = tokens_.find(wanted.client_token());
    if (known != tokens_.end()) return answer(envelope, known->second, effects);
  }
  if (const Result<Ok> allowed = may_submit(command.principal(), spec); !allowed) {
    return effects.refuse(envelope, allowed.refusal());
  }
  const std::string address = address_kind(spec.product()) + spec.id();
  if (spec.product() == v1::PRODUCT_SERVICE) {
    if (names_.count(spec.name()) != 0) {
      return effects.refuse(envelope, {"ServiceNameExists",
                                       "name \"" + spec.name() + "\" is taken in workspace \"" +
                                           record_.spec().name() + "\"; choose another name",
                                       409});
    }
    names_[spec.name()] = address;
    v1::TokenRecord part;
    part.set_token(spec.name());
    part.set_id(address);
    effects.save(context_.address + "#name/" + spec.name(), "NameRecord", part);
  }
  if (!wanted.client_token().empty()) {
    tokens_[wanted.client_token()] = spec.id();
    v1::TokenRecord part;
    part.set_token(wanted.client_token());
    part.set_id(spec.id());
    part.set_wall_ms(now.wall_ms);
    effects.save(context_.address + "#token/" + wanted.client_token(), "TokenRecord", part);
  }
  if (spec.created_wall_ms() == 0) spec.set_created_wall_ms(now.wall_ms);
  for (const v1::QuotaBinding& binding : record_.quotas()) {
    if (binding.quota_id() != spec.quota_id() || binding.run_at_most_ms() <= 0) continue;
    const bool shorter =
        spec.run_at_most_ms() > 0 && spec.run_at_most_ms() <= binding.run_at_most_ms();
    if (!shorter && spec.product() == v1::PRODUCT_JOB)
      spec.set_run_at_most_ms(binding.run_at_most_ms());
  }
  v1::WorkloadRecord workload;
  *workload.mutable_spec() = spec;
  if (wanted.has_cron()) {
    *workload.mutable_cron() = wanted.cron();
    for (v1::CronJob& job : *workload.mutable_cron()->mutable_jobs()) {
      if (job.last_fired_wall_ms() == 0) job.set_last_fired_wall_ms(now.wall_ms);
    }
  }
  effects.create(address, "WorkloadRecord", workload);
  effects.decide("submit workload=" + address + " workspace=" + record_.spec().id() +
                 " user=" + spec.user() + " quota=" + spec.quota_id());
  answer(envelope, spec.id(), effects);
}

Result<Ok> WorkspaceMachine::may_submit(const std::string& principal,
                                        const v1::WorkloadSpec& spec) const {
  const v1::QuotaBinding* bound = nullptr;
  for (const v1::QuotaBinding& binding : record_.quotas()) {
    if (binding.quota_id() == spec.quota_id()) bound = &binding;
  }
  if (bound == nullptr) {
    return Refusal{"QuotaNotBound",
                   "ResourceId: quota \"" + spec.quota_id() + "\" is not bound to workspace \"" +
                       record_.spec().name() + "\"; bind it first",
                   403};
  }
  const auto& products = bound->products();
  if (!products.empty() &&
      std::find(products.begin(), products.end(), spec.product()) == products.end()) {
    return Refusal{"ProductNotAllowed",
                   std::string("ResourceId: workspace \"") + record_.spec().name() +
                       "\" may not use quota \"" + spec.quota_id() + "\" for " +
                       name_of(spec.product()),
                   403};
  }
  if (spec.priority() < 1 || spec.priority() > 9) {
    return Refusal{
        "InvalidParameter",
        "Priority " + std::to_string(spec.priority()) + " is not allowed; allowed: 1 to 9", 400};
  }
  if (bound->priority_at_most() > 0 && spec.priority() > bound->priority_at_most()) {
    return Refusal{"PriorityNotAllowed",
                   "Priority " + std::to_string(spec.priority()) +
                       " is not allowed; allowed here: 1 to " +
                       std::to_string(bound->priority_at_most()),
                   403};
  }
  if (principal.empty()) return Ok{};  // the tenant's administrator
  for (const v1::Member& member : record_.members()) {
    if (member.user() != principal) continue;
    for (const std::string& role : member.roles()) {
      const bool named =
          bound->roles().empty() ||
          std::find(bound->roles().begin(), bound->roles().end(), role) != bound->roles().end();
      if (named && role_may_submit(role)) return Ok{};
    }
    return Refusal{"NoPermission",
                   "user \"" + principal + "\" has no role in workspace \"" +
                       record_.spec().name() + "\" that may submit to quota \"" + spec.quota_id() +
                       "\"",
                   403};
  }
  return Refusal{
      "NoPermission",
      "user \"" + principal + "\" is not a member of workspace \"" + record_.spec().name() + "\"",
      403};
}

void WorkspaceMachine::bind(const v1::QuotaBinding& binding, const v1::Envelope& envelope,
                            Effects& effects) {
  for (v1::QuotaBinding& known : *record_.mutable_quotas()) {
    if (known.quota_id() != binding.quota_id()) continue;
    known = binding;
    save(effects);
    return answer(envelope, binding.quota_id(), effects);
  }
  *record_.add_quotas() = binding;
  save(effects);
  effects.decide("bind quota=" + binding.quota_id() + " workspace=" + record_.spec().id());
  answer(envelope, binding.quota_id(), effects);
}

void WorkspaceMachine::set_member(const v1::Member& member, const v1::Envelope& envelope,
                                  Effects& effects) {
  for (const std::string& role : member.roles()) {
    const bool known = std::any_of(std::begin(kKnownRoles), std::end(kKnownRoles),
                                   [&](const char* name) { return role == name; });
    if (known) continue;
    return effects.refuse(envelope,
                          {"InvalidParameter",
                           "Roles: \"" + role +
                               "\" is unknown; allowed: PAI.WorkspaceOwner, PAI.WorkspaceAdmin, "
                               "PAI.AlgoDeveloper, PAI.AlgoOperator, PAI.LabelManager, "
                               "PAI.WorkspaceGuest",
                           400});
  }
  v1::Member* kept = nullptr;
  for (v1::Member& known : *record_.mutable_members()) {
    if (known.user() == member.user()) kept = &known;
  }
  if (kept == nullptr) kept = record_.add_members();
  const std::string id = kept->id().empty() ? member.id() : kept->id();
  *kept = member;
  kept->set_id(id);
  save(effects);
  answer(envelope, id, effects);
}

void WorkspaceMachine::save(Effects& effects) {
  effects.save(context_.address, "WorkspaceRecord", record_);
}

void WorkspaceMachine::answer(const v1::Envelope& envelope, const std::string& id,
                              Effects& effects) {
  v1::Reply reply;
  reply.set_id(id);
  effects.reply(envelope, std::move(reply));
}

}  // namespace ebb::actors
