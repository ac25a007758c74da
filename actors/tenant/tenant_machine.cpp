#include "actors/tenant/tenant_machine.hpp"

#include <algorithm>
#include <cctype>

namespace ebb::actors {
namespace {
constexpr const char* kDefaultGroup = "default";

Refusal not_found(const std::string& field, const std::string& id) {
  return {"NotFound", field + " \"" + id + "\" does not exist", 404};
}
bool listed(const google::protobuf::RepeatedPtrField<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}
}  // namespace

TenantMachine::TenantMachine(const Context& context, const std::vector<v1::Record>& records)
    : context_(context) {
  for (const v1::Record& record : records) {
    if (record.kind() == "TenantRecord") record_.ParseFromString(record.body());
  }
}

void TenantMachine::start(Instant now, Effects& effects) {
  const bool has_default = std::any_of(record_.groups().begin(), record_.groups().end(),
                                       [](const auto& g) { return g.id() == kDefaultGroup; });
  if (!has_default) {
    v1::ResourceGroupSpec* group = record_.add_groups();
    group->set_id(kDefaultGroup);
    group->set_name(kDefaultGroup);
    group->set_resource_type("ECS");
    group->set_created_wall_ms(now.wall_ms);
    dirty_ = true;
  }
  settle(now, effects);
}

void TenantMachine::remind(Instant) {
  for (auto& [id, talk] : pools_) talk.conversation.repeat();
}

void TenantMachine::wake(Instant now, Effects& effects) { settle(now, effects); }

void TenantMachine::handle(const v1::Envelope& envelope, Instant now, Effects& effects) {
  if (envelope.has_reply()) {
    return on_reply(envelope, effects);
  }
  const v1::TenantInbox& inbox = envelope.tenant();
  switch (inbox.message_case()) {
    case v1::TenantInbox::kNodeState:
      on(inbox.node_state(), envelope.from());
      break;
    case v1::TenantInbox::kCommand:
      command(inbox.command(), envelope, now, effects);
      break;
    case v1::TenantInbox::kPoolEcho:
      on(inbox.pool_echo());
      break;
    case v1::TenantInbox::MESSAGE_NOT_SET:
      effects.alarm("tenant got an empty message from=" + envelope.from());
      return;
  }
}

std::string TenantMachine::group_of(const v1::NodeFacts& facts) const {
  return facts.resource_group().empty() ? kDefaultGroup : facts.resource_group();
}

std::string TenantMachine::resource_type_of(const v1::NodeFacts& facts) const {
  if (!facts.resource_type().empty()) return facts.resource_type();
  for (const v1::ResourceGroupSpec& group : record_.groups()) {
    if (group.id() == group_of(facts) || group.name() == group_of(facts))
      return group.resource_type();
  }
  return "ECS";
}

void TenantMachine::on(const v1::NodeState& state, const std::string& from) {
  const std::string& name = state.facts().node();
  if (from != "node/" + name) return;
  auto talk = nodes_.find(name);
  if (talk == nodes_.end()) {
    NodeTalk fresh;
    fresh.conversation = Conversation(context_.epoch);
    talk = nodes_.emplace(name, std::move(fresh)).first;
  }
  if (!talk->second.conversation.receive(state.header())) return;
  v1::TenantRecord::Node* known = node(name);
  if (known == nullptr) {
    known = record_.add_nodes();
    dirty_ = true;
  }
  if (known->facts().SerializeAsString() != state.facts().SerializeAsString()) {
    *known->mutable_facts() = state.facts();
    dirty_ = true;
  }
}

void TenantMachine::on(const v1::PoolEcho& echo) {
  const std::string id(id_of_address(echo.pool()));
  const auto talk = pools_.find(id);
  if (talk == pools_.end()) return;
  talk->second.conversation.receive(echo.header());
  const v1::TenantRecord::Root* over = root(id);
  if (over == nullptr || !over->closing() || !talk->second.conversation.settled()) return;
  pools_.erase(talk);
  for (int i = 0; i < record_.roots_size(); ++i) {
    if (record_.roots(i).spec().quota_id() != id) continue;
    record_.mutable_roots()->DeleteSubrange(i, 1);
    break;
  }
  dirty_ = true;
}

v1::TenantRecord::Root* TenantMachine::root(const std::string& id) {
  for (v1::TenantRecord::Root& root : *record_.mutable_roots()) {
    if (root.spec().quota_id() == id) return &root;
  }
  return nullptr;
}

v1::TenantRecord::Node* TenantMachine::node(const std::string& name) {
  for (v1::TenantRecord::Node& node : *record_.mutable_nodes()) {
    if (node.facts().node() == name) return &node;
  }
  return nullptr;
}

std::uint32_t TenantMachine::nodes_of(const std::string& root, const std::string& type) const {
  return static_cast<std::uint32_t>(
      std::count_if(record_.nodes().begin(), record_.nodes().end(), [&](const auto& node) {
        return node.root_quota() == root && node.facts().node_type() == type;
      }));
}

std::vector<v1::TenantRecord::Node*> TenantMachine::free_nodes(
    const v1::RootQuota::NodeCount& wanted, const std::vector<std::string>& groups,
    const std::string& resource_type) {
  std::vector<v1::TenantRecord::Node*> found;
  for (v1::TenantRecord::Node& node : *record_.mutable_nodes()) {
    if (!node.root_quota().empty() || node.facts().node_type() != wanted.node_type()) continue;
    if (listed(wanted.exclude(), node.facts().node())) continue;
    if (!wanted.include().empty() && !listed(wanted.include(), node.facts().node())) continue;
    if (!resource_type.empty() && resource_type_of(node.facts()) != resource_type) continue;
    const std::string group = group_of(node.facts());
    const bool in_group =
        groups.empty() || std::any_of(groups.begin(), groups.end(), [&](auto& id) {
          if (id == group) return true;
          for (const v1::ResourceGroupSpec& known : record_.groups()) {
            if (known.id() == id && known.name() == group) return true;
          }
          return false;
        });
    if (in_group) found.push_back(&node);
  }
  std::sort(found.begin(), found.end(),
            [](const auto* a, const auto* b) { return a->facts().node() < b->facts().node(); });
  return found;
}

scheduling::Amounts TenantMachine::amounts_of_root(const std::string& id) const {
  scheduling::Amounts sum;
  for (const v1::TenantRecord::Node& node : record_.nodes()) {
    if (node.root_quota() == id) sum[node.facts().node_type()] += amount_of(node.facts().total());
  }
  return sum;
}

void TenantMachine::command(const v1::TenantCommand& command, const v1::Envelope& envelope, Instant,
                            Effects& effects) {
  switch (command.command_case()) {
    case v1::TenantCommand::kCreateRoot:
      return create_root(command.create_root(), envelope, effects);
    case v1::TenantCommand::kDeleteRoot:
      return delete_root(command.delete_root(), envelope, effects);
    case v1::TenantCommand::kCreateWorkspace:
      return create_workspace(command.create_workspace(), envelope, effects);
    case v1::TenantCommand::kOperateNode:
      return operate_node(command.operate_node(), envelope, effects);
    case v1::TenantCommand::kCreateGroup:
      return create_group(command.create_group(), envelope, effects);
    case v1::TenantCommand::kDeleteGroup:
      return delete_group(command.delete_group(), envelope, effects);
    case v1::TenantCommand::kDescribe: {
      v1::Reply reply;
      record_.SerializeToString(reply.mutable_body());
      return effects.reply(envelope, std::move(reply));
    }
    case v1::TenantCommand::kScaleRoot:
      return scale_root(command.scale_root(), envelope, effects);
    case v1::TenantCommand::COMMAND_NOT_SET:
      break;
  }
  effects.refuse(envelope, {"InvalidParameter", "the command is empty", 400});
}

void TenantMachine::create_root(const v1::RootQuota& wanted, const v1::Envelope& envelope,
                                Effects& effects) {
  const v1::QuotaSpec& asked = wanted.spec();
  for (const v1::TenantRecord::Root& known : record_.roots()) {
    if (known.spec().quota_id() == asked.quota_id())
      return answer(envelope, asked.quota_id(), effects);
    if (known.spec().name() != asked.name()) continue;
    return effects.refuse(
        envelope, {"QuotaNameExists",
                   "QuotaName \"" + asked.name() + "\" is taken; choose another name", 409});
  }
  const std::vector<std::string> groups(wanted.resource_groups().begin(),
                                        wanted.resource_groups().end());
  for (const std::string& id : groups) {
    const bool known = std::any_of(record_.groups().begin(), record_.groups().end(),
                                   [&](const auto& g) { return g.id() == id; });
    if (!known) return effects.refuse(envelope, not_found("ResourceGroupIds", id));
  }
  if (wanted.nodes().empty()) {
    return effects.refuse(envelope,
                          {"InvalidParameter",
                           "Min.NodeSpecs is empty; a root quota is made of whole nodes, for "
                           "instance [{\"Type\": \"A100\", \"Count\": 16}]",
                           400});
  }
  std::vector<v1::TenantRecord::Node*> taken;
  for (const v1::RootQuota::NodeCount& count : wanted.nodes()) {
    std::vector<v1::TenantRecord::Node*> found = free_nodes(count, groups, asked.resource_type());
    if (count.nodes() == 0 || found.size() < count.nodes()) {
      std::string there;
      std::map<std::string, int> types;
      for (const v1::TenantRecord::Node& node : record_.nodes()) {
        if (node.root_quota().empty()) ++types[node.facts().node_type()];
      }
      for (const auto& [type, number] : types) {
        there += (there.empty() ? "" : ", ") + std::to_string(number) + " of " + type;
      }
      return effects.refuse(
          envelope,
          {"ResourceNotEnough",
           "Min.NodeSpecs: " + std::to_string(count.nodes()) + " nodes of type \"" +
               count.node_type() + "\" are wanted, " + std::to_string(found.size()) +
               " are free in the resource groups with ResourceType \"" + asked.resource_type() +
               "\"; free nodes of any: " + (there.empty() ? "none" : there),
           400});
    }
    taken.insert(taken.end(), found.begin(), found.begin() + count.nodes());
  }
  for (v1::TenantRecord::Node* node : taken) node->set_root_quota(asked.quota_id());
  v1::TenantRecord::Root* made = record_.add_roots();
  *made->mutable_spec() = asked;
  *made->mutable_wanted() = wanted.nodes();
  *made->mutable_resource_groups() = wanted.resource_groups();
  v1::QuotaSpec* spec = made->mutable_spec();
  spec->clear_parent_id();
  spec->set_root_id(asked.quota_id());
  spec->set_pool("pool/" + asked.quota_id());
  if (spec->resource_type().empty()) spec->set_resource_type(resource_type_of(taken[0]->facts()));
  set(spec->mutable_guarantee(), amounts_of_root(asked.quota_id()));
  v1::QuotaRecord quota;
  *quota.mutable_spec() = *spec;
  quota.set_edge_epoch(1);
  *quota.mutable_holding() = spec->guarantee();
  effects.create("quota/" + asked.quota_id(), "QuotaRecord", quota);
  v1::PoolRecord pool;
  pool.set_pool_id(asked.quota_id());
  pool.set_root_quota(asked.quota_id());
  pool.set_resource_type(spec->resource_type());
  effects.create(spec->pool(), "PoolRecord", pool);
  effects.decide("create quota=" + asked.quota_id() + " name=" + asked.name() +
                 " nodes=" + std::to_string(taken.size()));
  dirty_ = true;
  answer(envelope, asked.quota_id(), effects);
}

void TenantMachine::scale_root(const v1::RootQuota& wanted, const v1::Envelope& envelope,
                               Effects& effects) {
  const std::string& id = wanted.spec().quota_id();
  v1::TenantRecord::Root* known = root(id);
  if (known == nullptr) return effects.refuse(envelope, not_found("QuotaId", id));
  std::vector<std::string> groups(wanted.resource_groups().begin(), wanted.resource_groups().end());
  if (groups.empty())
    groups.assign(known->resource_groups().begin(), known->resource_groups().end());
  scheduling::Amounts amounts = amounts_of_root(id);
  for (const v1::RootQuota::NodeCount& count : wanted.nodes()) {
    const std::uint32_t have = nodes_of(id, count.node_type());
    if (count.nodes() > have) {
      const auto found = free_nodes(count, groups, known->spec().resource_type());
      if (found.size() < count.nodes() - have) {
        return effects.refuse(
            envelope, {"ResourceNotEnough",
                       "Min.NodeSpecs: " + std::to_string(count.nodes() - have) +
                           " more nodes of type \"" + count.node_type() + "\" are wanted, " +
                           std::to_string(found.size()) + " are free in the resource groups",
                       400});
      }
      for (std::uint32_t i = have; i < count.nodes(); ++i) {
        amounts[count.node_type()] += amount_of(found[i - have]->facts().total());
      }
      continue;
    }
    std::uint32_t left = have - count.nodes();
    for (const v1::TenantRecord::Node& node : record_.nodes()) {
      if (left == 0) break;
      if (node.root_quota() != id || node.facts().node_type() != count.node_type()) continue;
      if (!node.cordoned() && !node.drain()) continue;
      amounts[count.node_type()] -= amount_of(node.facts().total());
      --left;
    }
    if (left > 0) {
      return effects.refuse(envelope, {"NodesInUse",
                                       "Min.NodeSpecs: " + std::to_string(left) +
                                           " of the nodes of type \"" + count.node_type() +
                                           "\" to be given up are in service; drain as many first",
                                       409});
    }
  }
  Pending pending;
  pending.scale = wanted;
  pending.request = envelope;
  ask_quota_to_scale(*known, amounts, std::move(pending), effects);
}

void TenantMachine::ask_quota_to_scale(const v1::TenantRecord::Root& root,
                                       const scheduling::Amounts& amounts, Pending pending,
                                       Effects& effects) {
  const std::string correlation =
      "t" + std::to_string(context_.epoch) + "-" + std::to_string(next_correlation_++);
  v1::Envelope& ask = effects.send("quota/" + root.spec().quota_id());
  ask.set_correlation_id(correlation);
  v1::ScaleQuotas::One* one =
      ask.mutable_quota()->mutable_command()->mutable_scale_root()->add_quotas();
  one->set_quota_id(root.spec().quota_id());
  set(one->mutable_guarantee(), amounts);
  pending_[correlation] = std::move(pending);
}

void TenantMachine::delete_root(const std::string& id, const v1::Envelope& envelope,
                                Effects& effects) {
  if (root(id) == nullptr) return effects.refuse(envelope, not_found("QuotaId", id));
  const std::string correlation =
      "t" + std::to_string(context_.epoch) + "-" + std::to_string(next_correlation_++);
  v1::Envelope& ask = effects.send("quota/" + id);
  ask.set_correlation_id(correlation);
  ask.mutable_quota()->mutable_command()->set_close(true);
  Pending pending;
  pending.request = envelope;
  pending.delete_root = id;
  pending_[correlation] = std::move(pending);
}

void TenantMachine::on_reply(const v1::Envelope& envelope, Effects& effects) {
  const auto it = pending_.find(envelope.correlation_id());
  if (it == pending_.end()) return;
  const Pending pending = std::move(it->second);
  pending_.erase(it);
  if (envelope.reply().has_refusal()) {
    v1::Reply refused;
    *refused.mutable_refusal() = envelope.reply().refusal();
    return effects.reply(pending.request, std::move(refused));
  }
  if (!pending.delete_root.empty()) {
    for (v1::TenantRecord::Node& node : *record_.mutable_nodes()) {
      if (node.root_quota() == pending.delete_root) node.clear_root_quota();
    }
    if (v1::TenantRecord::Root* over = root(pending.delete_root)) over->set_closing(true);
    effects.decide("delete quota=" + pending.delete_root);
    dirty_ = true;
    return answer(pending.request, pending.delete_root, effects);
  }
  if (pending.request.from().empty()) return;  // its own: nodes that joined later
  const std::string& id = pending.scale.spec().quota_id();
  v1::TenantRecord::Root* known = root(id);
  if (known == nullptr) return;
  std::vector<std::string> groups(pending.scale.resource_groups().begin(),
                                  pending.scale.resource_groups().end());
  if (groups.empty())
    groups.assign(known->resource_groups().begin(), known->resource_groups().end());
  for (const v1::RootQuota::NodeCount& count : pending.scale.nodes()) {
    std::uint32_t have = nodes_of(id, count.node_type());
    for (v1::TenantRecord::Node* node : free_nodes(count, groups, known->spec().resource_type())) {
      if (have >= count.nodes()) break;
      node->set_root_quota(id);
      ++have;
    }
    for (v1::TenantRecord::Node& node : *record_.mutable_nodes()) {
      if (have <= count.nodes()) break;
      if (node.root_quota() != id || node.facts().node_type() != count.node_type()) continue;
      if (!node.cordoned() && !node.drain()) continue;
      node.clear_root_quota();
      --have;
    }
  }
  *known->mutable_wanted() = pending.scale.nodes();
  set(known->mutable_spec()->mutable_guarantee(), amounts_of_root(id));
  effects.decide("scale quota=" + id);
  dirty_ = true;
  answer(pending.request, id, effects);
}

/// Nodes that joined after a root was made fill it up to what it wants.
void TenantMachine::fill_roots(Effects& effects) {
  for (v1::TenantRecord::Root& root : *record_.mutable_roots()) {
    if (root.closing()) continue;
    const std::string& id = root.spec().quota_id();
    const std::vector<std::string> groups(root.resource_groups().begin(),
                                          root.resource_groups().end());
    bool grew = false;
    for (const v1::RootQuota::NodeCount& count : root.wanted()) {
      std::uint32_t have = nodes_of(id, count.node_type());
      if (have >= count.nodes()) continue;
      for (v1::TenantRecord::Node* node : free_nodes(count, groups, root.spec().resource_type())) {
        if (have >= count.nodes()) break;
        node->set_root_quota(id);
        ++have;
        grew = true;
      }
    }
    if (!grew) continue;
    dirty_ = true;
    set(root.mutable_spec()->mutable_guarantee(), amounts_of_root(id));
    ask_quota_to_scale(root, amounts_of_root(id), {}, effects);
  }
}

void TenantMachine::create_workspace(const v1::WorkspaceSpec& spec, const v1::Envelope& envelope,
                                     Effects& effects) {
  const std::string& name = spec.name();
  const bool shape = name.size() >= 3 && name.size() <= 23 &&
                     std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
                     std::all_of(name.begin(), name.end(),
                                 [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (!shape) {
    return effects.refuse(envelope,
                          {"InvalidParameter",
                           "WorkspaceName \"" + name.substr(0, 64) +
                               "\" is not allowed; allowed: 3 to 23 letters, digits and _, "
                               "starting with a letter",
                           400});
  }
  for (const v1::WorkspaceSpec& known : record_.workspaces()) {
    if (known.id() == spec.id()) return answer(envelope, spec.id(), effects);
    if (known.name() != name) continue;
    return effects.refuse(envelope,
                          {"WorkspaceNameExists",
                           "WorkspaceName \"" + name + "\" is taken; choose another name", 409});
  }
  *record_.add_workspaces() = spec;
  v1::WorkspaceRecord workspace;
  *workspace.mutable_spec() = spec;
  effects.create("workspace/" + spec.id(), "WorkspaceRecord", workspace);
  effects.decide("create workspace=" + spec.id() + " name=" + name);
  dirty_ = true;
  answer(envelope, spec.id(), effects);
}

void TenantMachine::create_group(const v1::ResourceGroupSpec& spec, const v1::Envelope& envelope,
                                 Effects& effects) {
  if (spec.resource_type() != "ECS" && spec.resource_type() != "Lingjun") {
    return effects.refuse(envelope, {"InvalidParameter",
                                     "ResourceType \"" + spec.resource_type() +
                                         "\" is not allowed; allowed: ECS, Lingjun",
                                     400});
  }
  for (const v1::ResourceGroupSpec& known : record_.groups()) {
    if (known.id() == spec.id()) return answer(envelope, spec.id(), effects);
    if (known.name() != spec.name()) continue;
    return effects.refuse(envelope,
                          {"ResourceGroupNameExists",
                           "Name \"" + spec.name() + "\" is taken; choose another name", 409});
  }
  *record_.add_groups() = spec;
  dirty_ = true;
  answer(envelope, spec.id(), effects);
}

void TenantMachine::delete_group(const std::string& id, const v1::Envelope& envelope,
                                 Effects& effects) {
  for (int i = 0; i < record_.groups_size(); ++i) {
    if (record_.groups(i).id() != id) continue;
    const std::string name = record_.groups(i).name();
    const auto members =
        std::count_if(record_.nodes().begin(), record_.nodes().end(), [&](const auto& node) {
          return group_of(node.facts()) == id || group_of(node.facts()) == name;
        });
    if (members > 0 || id == kDefaultGroup) {
      return effects.refuse(envelope,
                            {"ResourceGroupInUse",
                             "ResourceGroupID \"" + id + "\" has " + std::to_string(members) +
                                 " nodes or is the default; it cannot be deleted",
                             409});
    }
    record_.mutable_groups()->DeleteSubrange(i, 1);
    dirty_ = true;
    return answer(envelope, id, effects);
  }
  effects.refuse(envelope, not_found("ResourceGroupID", id));
}

void TenantMachine::operate_node(const v1::OperateNode& operation, const v1::Envelope& envelope,
                                 Effects& effects) {
  v1::TenantRecord::Node* known = node(operation.node());
  if (known == nullptr) return effects.refuse(envelope, not_found("NodeId", operation.node()));
  if (operation.operation() == "Cordon") {
    known->set_cordoned(true);
  } else if (operation.operation() == "Uncordon") {
    known->set_cordoned(false);
    known->set_drain(false);
    known->set_force(false);
    known->set_fenced(false);
  } else if (operation.operation() == "Drain") {
    known->set_cordoned(true);
    known->set_drain(true);
    known->set_force(operation.force());
  } else if (operation.operation() == "Fence") {
    known->set_cordoned(true);
    known->set_fenced(true);
  } else {
    return effects.refuse(envelope,
                          {"InvalidParameter",
                           "Operation \"" + operation.operation() +
                               "\" is not allowed; allowed: Cordon, Uncordon, Drain, Fence",
                           400});
  }
  effects.decide("operate node=" + operation.node() + " operation=" + operation.operation());
  dirty_ = true;
  answer(envelope, operation.node(), effects);
}

void TenantMachine::answer(const v1::Envelope& envelope, const std::string& id, Effects& effects) {
  v1::Reply reply;
  reply.set_id(id);
  effects.reply(envelope, std::move(reply));
}

v1::PoolTerms TenantMachine::terms_of(const v1::TenantRecord::Root& root) const {
  v1::PoolTerms terms;
  terms.set_root_quota(root.spec().quota_id());
  terms.set_resource_type(root.spec().resource_type());
  terms.set_over(root.closing());
  for (const v1::TenantRecord::Node& node : record_.nodes()) {
    if (node.root_quota() != root.spec().quota_id()) continue;
    v1::PoolTerms::Node* named = terms.add_nodes();
    named->set_node(node.facts().node());
    named->set_node_type(node.facts().node_type());
    named->set_cordoned(node.cordoned());
    named->set_drain(node.drain());
    named->set_force(node.force());
    named->set_fenced(node.fenced());
    *named->mutable_total() = node.facts().total();
  }
  return terms;
}

void TenantMachine::settle(Instant now, Effects& effects) {
  if (dirty_) fill_roots(effects);
  std::int64_t next = kNever;
  for (auto& [name, talk] : nodes_) {
    v1::NodeBinding binding;
    if (const v1::TenantRecord::Node* known = node(name); known != nullptr) {
      binding.set_root_quota(known->root_quota());
      if (!known->root_quota().empty()) binding.set_pool("pool/" + known->root_quota());
    }
    if (says_anything_new(binding, &talk.told)) talk.conversation.touch();
    if (talk.conversation.must_send(now.mono_ms)) {
      talk.conversation.stamp(binding.mutable_header(), now.mono_ms);
      *effects.send("node/" + name).mutable_node()->mutable_node_binding() = std::move(binding);
    }
    next = std::min(next, talk.conversation.due());
  }
  for (const v1::TenantRecord::Root& root : record_.roots()) {
    const std::string& id = root.spec().quota_id();
    auto talk = pools_.find(id);
    if (talk == pools_.end()) {
      PoolTalk fresh;
      fresh.conversation = Conversation(context_.epoch);
      talk = pools_.emplace(id, std::move(fresh)).first;
    }
    v1::PoolTerms terms = terms_of(root);
    if (says_anything_new(terms, &talk->second.told)) talk->second.conversation.touch();
    if (talk->second.conversation.must_send(now.mono_ms)) {
      talk->second.conversation.stamp(terms.mutable_header(), now.mono_ms);
      *effects.send("pool/" + id).mutable_pool()->mutable_pool_terms() = std::move(terms);
    }
    next = std::min(next, talk->second.conversation.due());
  }
  if (dirty_) {
    dirty_ = false;
    effects.save(context_.address, "TenantRecord", record_);
  }
  if (next != kNever) effects.wake_at(std::max(next, now.mono_ms));
}

}  // namespace ebb::actors
