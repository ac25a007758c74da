#include "sim/soak/operators.hpp"

#include <algorithm>

#include "sim/soak/build.hpp"

namespace ebb::sim {
namespace {
constexpr const char* kClient = "gateway/client";
constexpr const char* kOperator = "gateway/operator";
constexpr std::int64_t kAskAgainMs = 1'000;
constexpr int kTriesMost = 400;
constexpr std::uint32_t kReplicasMost = 64;

bool is_final(const std::string& status) {
  return status == "Succeeded" || status == "Failed" || status == "Stopped";
}
}  // namespace

Operators::Operators(const Plan& plan, World& world, Books& books, Checker& checker)
    : plan_(plan), world_(world), books_(books), checker_(checker) {}

void Operators::begin() {
  const std::int64_t zero = world_.now().wall_ms;
  for (std::size_t i = 0; i < plan_.works.size(); ++i) {
    world_.at(zero + plan_.works[i].at_ms, [this, i] { submit(i, 0); });
  }
  for (const ActPlan& plan : plan_.acts) {
    world_.at(zero + plan.at_ms, [this, plan] {
      if (!resting_) act(plan);
    });
  }
}

void Operators::set_programs(const WorkPlan& work, const std::string& address) {
  const std::uint32_t count = work.product == v1::PRODUCT_SERVICE ? kReplicasMost : 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    Program& program = world_.program(address, i);
    program.runs_ms = work.runs_ms;
    program.leaves_after_ms = work.leaves_after_ms;
    program.exit_code = work.exit_code;
  }
}

void Operators::submit(std::size_t i, int tries) {
  if (acknowledged_.count(i) != 0 || refused_.count(i) != 0 || tries >= kTriesMost) return;
  if (resting_ && tries == 0) return;
  const WorkPlan& work = plan_.works[i];
  const std::string id = "w" + std::to_string(i) + "t" + std::to_string(tries);
  asked_[id] = i;
  set_programs(work, address_of(work, id));
  v1::Envelope envelope;
  envelope.set_from(kClient);
  envelope.set_to(workspace_of(work.workspace));
  envelope.set_correlation_id(std::to_string(i));
  v1::WorkspaceCommand* command = envelope.mutable_workspace()->mutable_command();
  command->set_principal(work.principal);
  *command->mutable_create_workload()->mutable_workload() = spec_of(work, id);
  command->mutable_create_workload()->set_client_token("token" + std::to_string(i));
  world_.post(std::move(envelope));
  world_.at(world_.now().wall_ms + kAskAgainMs, [this, i, tries] { submit(i, tries + 1); });
}

void Operators::heard(const v1::Envelope& reply) {
  if (reply.to() != kClient) return;
  const std::size_t i = std::stoul(reply.correlation_id());
  const v1::Reply& answer = reply.reply();
  if (answer.refusal().code() == "StoreFull") return;
  if (!answer.refusal().code().empty()) {
    refused_.insert(i);
    if (plan_.works[i].allowed && answer.refusal().code() == "NoPermission") {
      checker_.fail("I12", "work " + std::to_string(i) + " of " + plan_.works[i].principal +
                               " was refused: " + answer.refusal().message());
    }
    return;
  }
  const auto [it, is_new] = acknowledged_.try_emplace(i, answer.id());
  if (!plan_.works[i].allowed) {
    checker_.fail("I12", "\"" + plan_.works[i].principal + "\" was allowed to submit");
  }
  if (!is_new && it->second != answer.id()) {
    checker_.fail("I10", "token " + std::to_string(i) + " was answered " + it->second +
                             " and then " + answer.id());
  }
  const std::string address = address_of(plan_.works[i], answer.id());
  if (books_.workloads.count(address) == 0 && removing_.count(address) == 0) {
    checker_.fail("I10", address + " was acknowledged and is not in the store");
  }
}

void Operators::record_erased(const std::string& address) {
  if (removing_.count(address) == 0) {
    checker_.fail("I10", address + " was erased and nobody has asked for it");
  }
}

void Operators::command(const std::string& to, v1::Envelope envelope) {
  envelope.set_from(kOperator);
  envelope.set_to(to);
  world_.post(std::move(envelope));
}

const std::string* Operators::pick_workload(Random& luck, v1::Product product, bool any) const {
  std::vector<const std::string*> fitting;
  for (const auto& [address, workload] : books_.workloads) {
    if (any || workload.spec.product() == product) fitting.push_back(&address);
  }
  return fitting.empty() ? nullptr : fitting[luck.below(fitting.size())];
}

void Operators::act(const ActPlan& plan) {
  Random luck(plan.luck);
  v1::Envelope envelope;
  const auto pick_quota = [&](bool with_children) -> const QuotaBook* {
    std::vector<const QuotaBook*> fitting;
    for (const auto& [id, quota] : books_.quotas) {
      if (!quota.present || quota.specs.empty()) continue;
      if (!with_children || !quota.children.empty()) fitting.push_back(&quota);
    }
    return fitting.empty() ? nullptr : fitting[luck.below(fitting.size())];
  };
  const auto typed = [&](const Units& units, v1::ScaleQuotas::One* one) {
    for (std::size_t t = 0; t < plan_.types.size(); ++t) {
      v1::TypedAmount* amount = one->add_guarantee();
      amount->set_node_type(plan_.types[t]);
      amount->mutable_amount()->set_gpu_milli(units[t]);
    }
  };
  switch (plan.what) {
    case Act::Stop: {
      const std::string* address = pick_workload(luck, v1::PRODUCT_JOB, true);
      if (address == nullptr) return;
      envelope.mutable_workload()->mutable_command()->set_stop(true);
      return command(*address, std::move(envelope));
    }
    case Act::Remove: {
      const std::string* address = pick_workload(luck, v1::PRODUCT_JOB, true);
      if (address == nullptr) return;
      removing_.insert(*address);
      envelope.mutable_workload()->mutable_command()->set_remove(true);
      return command(*address, std::move(envelope));
    }
    case Act::Scale: {
      const std::string* address = pick_workload(luck, v1::PRODUCT_SERVICE, false);
      if (address == nullptr) return;
      envelope.mutable_workload()->mutable_command()->set_scale(
          static_cast<std::uint32_t>(luck.below(9)));
      return command(*address, std::move(envelope));
    }
    case Act::Priority: {
      const std::string* address = pick_workload(luck, v1::PRODUCT_JOB, true);
      if (address == nullptr) return;
      envelope.mutable_workload()->mutable_command()->mutable_update()->set_priority(
          static_cast<int>(1 + luck.below(9)));
      return command(*address, std::move(envelope));
    }
    case Act::ScaleQuota: {
      const QuotaBook* parent = pick_quota(true);
      if (parent == nullptr) return;
      std::vector<std::string> ids;
      for (const auto& [id, edge] : parent->children) ids.push_back(id);
      const std::string from = ids[luck.below(ids.size())];
      const std::string to = ids[luck.below(ids.size())];
      Units less = parent->children.at(from).guarantee;
      Units more = parent->children.at(to).guarantee;
      for (std::size_t t = 0; t < kTypesMost; ++t) {
        const auto part =
            static_cast<std::int64_t>(luck.below(static_cast<std::uint64_t>(less[t] / 1000) + 1)) *
            1000;
        less[t] -= part;
        more[t] += part;
      }
      v1::ScaleQuotas* scale =
          envelope.mutable_quota()->mutable_command()->mutable_scale_children();
      scale->set_preempt(luck.below(2) == 0);
      v1::ScaleQuotas::One* one = scale->add_quotas();
      one->set_quota_id(from);
      typed(less, one);
      if (from != to && luck.below(4) != 0) {
        one = scale->add_quotas();
        one->set_quota_id(to);
        typed(more, one);
      }
      return command("quota/" + parent->specs.back().quota_id(), std::move(envelope));
    }
    case Act::Policy:
    case Act::Preemption: {
      const QuotaBook* quota = pick_quota(false);
      if (quota == nullptr) return;
      v1::QuotaSpec spec = quota->specs.back();
      if (plan.what == Act::Policy) {
        static constexpr const char* kPolicies[] = {"PaiStrategyIntelligent",
                                                    "PaiStrategyStrictFIFO",
                                                    "PaiStrategyRoundRobin", "PaiStrategyBalance"};
        spec.set_queue_strategy(kPolicies[luck.below(4)]);
      } else {
        spec.set_child_preemption(luck.below(2) == 0);
        spec.mutable_child_filter()->set_priority_at_most(static_cast<int>(1 + luck.below(9)));
        spec.set_self_preemption(luck.below(2) == 0);
      }
      *envelope.mutable_quota()->mutable_command()->mutable_update() = spec;
      return command("quota/" + spec.quota_id(), std::move(envelope));
    }
    case Act::Cordon:
    case Act::Uncordon:
    case Act::Drain: {
      const NodePlan& node = plan_.nodes[luck.below(plan_.nodes.size())];
      v1::OperateNode* operate =
          envelope.mutable_tenant()->mutable_command()->mutable_operate_node();
      operate->set_node(node.name);
      operate->set_operation(plan.what == Act::Cordon     ? "Cordon"
                             : plan.what == Act::Uncordon ? "Uncordon"
                                                          : "Drain");
      if (plan.what == Act::Drain) checker_.operators_drained();
      return command("tenant", std::move(envelope));
    }
    case Act::AddQuota: {
      const QuotaBook* parent = pick_quota(false);
      if (parent == nullptr) return;
      v1::QuotaSpec spec = parent->specs.back();
      Units left = parent->guarantee;
      for (const auto& [id, edge] : parent->children) {
        for (std::size_t t = 0; t < kTypesMost; ++t) left[t] -= edge.guarantee[t];
      }
      const std::string parent_id = spec.quota_id();
      const std::string id = "x" + std::to_string(++next_quota_);
      spec.set_quota_id(id);
      spec.set_name(id);
      spec.clear_guarantee();
      for (std::size_t t = 0; t < plan_.types.size(); ++t) {
        v1::TypedAmount* amount = spec.add_guarantee();
        amount->set_node_type(plan_.types[t]);
        amount->mutable_amount()->set_gpu_milli(
            static_cast<std::int64_t>(luck.below(
                static_cast<std::uint64_t>(std::max<std::int64_t>(0, left[t]) / 1000) + 1)) *
            1000);
      }
      *envelope.mutable_quota()->mutable_command()->mutable_create_child() = spec;
      return command("quota/" + parent_id, std::move(envelope));
    }
    case Act::DropQuota: {
      const QuotaBook* parent = pick_quota(true);
      if (parent == nullptr) return;
      std::vector<std::string> ids;  // of those that no workspace is bound to
      for (const auto& [id, edge] : parent->children) {
        if (id.starts_with("x")) ids.push_back(id);
      }
      if (ids.empty()) return;
      envelope.mutable_quota()->mutable_command()->set_delete_child(ids[luck.below(ids.size())]);
      return command("quota/" + parent->specs.back().quota_id(), std::move(envelope));
    }
  }
}

bool Operators::stop_all() {
  bool any = false;
  std::vector<std::string> addresses;
  for (const auto& [address, workload] : books_.workloads) {
    const bool job = workload.spec.product() == v1::PRODUCT_JOB;
    if (job ? is_final(workload.status) : workload.status == "Stopped") continue;
    addresses.push_back(address);
  }
  for (const std::string& address : addresses) {
    any = true;
    v1::Envelope envelope;
    envelope.mutable_workload()->mutable_command()->set_stop(true);
    command(address, std::move(envelope));
  }
  return any;
}

void Operators::uncordon_all() {
  for (const NodePlan& node : plan_.nodes) {
    v1::Envelope envelope;
    v1::OperateNode* operate = envelope.mutable_tenant()->mutable_command()->mutable_operate_node();
    operate->set_node(node.name);
    operate->set_operation("Uncordon");
    command("tenant", std::move(envelope));
  }
}

void Operators::check_promises() {
  for (const auto& [i, id] : acknowledged_) {
    const std::string address = address_of(plan_.works[i], id);
    if (books_.workloads.count(address) == 0 && removing_.count(address) == 0) {
      checker_.fail("I10", address + " was acknowledged and is gone");
    }
  }
  std::map<std::size_t, std::string> made;
  for (const auto& [address, workload] : books_.workloads) {
    const auto asked = asked_.find(workload.spec.id());
    if (asked == asked_.end()) continue;
    const auto [it, is_new] = made.try_emplace(asked->second, address);
    if (!is_new) checker_.fail("I10", "one token made " + it->second + " and " + address);
    if (!plan_.works[asked->second].allowed) {
      checker_.fail("I12", address + " was made by one who may not");
    }
  }
}

}  // namespace ebb::sim
