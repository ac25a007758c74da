// What a node says to whom, and when.
#include <algorithm>

#include "actors/node/node_machine.hpp"

namespace ebb::actors {
namespace {
void set(v1::PodKey* out, const ClaimKey& key, std::pair<std::uint32_t, std::uint32_t> id) {
  out->set_workload(key.workload);
  out->set_index(key.index);
  out->set_attempt(id.first);
  out->set_pod(id.second);
}
}  // namespace

std::string NodeMachine::record_key(const ClaimKey& key) const {
  return context_.address + "#" + text_of(key);
}

v1::LauncherInbox& NodeMachine::to_launcher(Effects& effects) const {
  return *effects.send("launcher/" + name_).mutable_launcher();
}

void NodeMachine::send_probe(Effects& effects) const {
  v1::ProbePods* probe = to_launcher(effects).mutable_probe();
  for (const ClaimKey& key : holders_) {
    for (const auto& [id, pod] : claims_.at(key).pods) {
      if (pod.holds_slot() && pod.state() != v1::POD_STATE_BOUND) {
        set(probe->add_alive(), key, id);
      }
    }
  }
}

void NodeMachine::send_launch(const ClaimKey& key, const ClaimEntry& entry, PodId id,
                              const Pod& pod, Effects& effects) const {
  if (entry.head.stop_after_ms() > 0 && contact_mono_ms_) {
    to_launcher(effects).mutable_contact()->set_mono_ms(*contact_mono_ms_);
  }
  v1::LaunchPod* launch = to_launcher(effects).mutable_launch();
  set(launch->mutable_key(), key, id);
  *launch->mutable_spec() = pod.order.launch();
  *launch->mutable_gpus() = pod.order.gpus();
  *launch->mutable_amount() = pod.order.amount();
  launch->set_product(entry.head.product());
  launch->set_stop_after_ms(entry.head.stop_after_ms());
  launch->set_grace_period_ms(pod.order.grace_period_ms());
}

void NodeMachine::send_signal(const ClaimKey& key, PodId id, int signo, bool leave,
                              Effects& effects) const {
  v1::SignalPod* signal = to_launcher(effects).mutable_signal();
  set(signal->mutable_key(), key, id);
  signal->set_signo(signo);
  signal->set_leave(leave);
}

void NodeMachine::send_kill(const ClaimKey& key, PodId id, Effects& effects) const {
  set(to_launcher(effects).mutable_kill()->mutable_key(), key, id);
}

void NodeMachine::send_forget(const ClaimKey& key, PodId id, Effects& effects) const {
  set(to_launcher(effects).mutable_forget()->mutable_key(), key, id);
}

void NodeMachine::send_reports(const ClaimKey& key, ClaimEntry& entry, Instant now,
                               Effects& effects) {
  if (!entry.workload.must_send(now.mono_ms)) return;
  v1::PodReports* reports = effects.send(key.workload).mutable_workload()->mutable_pod_reports();
  entry.workload.stamp(reports->mutable_header(), now.mono_ms);
  reports->set_node(name_);
  *reports->mutable_claim() = claim_of(key);
  reports->set_attempt(entry.head.attempt());
  for (const auto& [id, pod] : entry.pods) {
    if (id.first == entry.head.attempt()) *reports->add_pods() = pod.report;
  }
}

v1::NodeState NodeMachine::state() const {
  v1::NodeState state;
  *state.mutable_facts() = facts_;
  for (const ClaimKey& key : holders_) {
    const ClaimEntry& entry = claims_.at(key);
    for (const auto& [id, pod] : entry.pods) {
      if (!pod.holds_slot()) continue;
      v1::SlotPod* out = state.add_pods();
      *out->mutable_claim() = claim_of(key);
      out->set_attempt(id.first);
      out->set_pod(id.second);
      *out->mutable_gpus() = pod.order.gpus();
      *out->mutable_amount() = pod.order.amount();
      out->set_state(pod.state());
      out->set_claim_class(entry.head.claim_class());
      out->set_quota(entry.head.quota());
      out->set_priority(entry.head.priority());
      out->set_product(entry.head.product());
      out->set_started_wall_ms(pod.report.started_wall_ms());
    }
  }
  return state;
}

/// To the pool; to the tenant as a greeting after each start and while there is no pool. When it
/// has to be called again.
std::int64_t NodeMachine::send_state(Instant now, Effects& effects) {
  const std::string& pool = life_.binding().pool();
  Conversation* to_pool = nullptr;
  if (!pool.empty()) {
    to_pool = &pools_.try_emplace(pool, Conversation(context_.epoch)).first->second;
    if (table_changed_ || to_pool->mine().version == 0) to_pool->touch();
  }
  table_changed_ = false;
  const bool beat = now.mono_ms >= heartbeat_at_mono_ms_;
  if (beat) heartbeat_at_mono_ms_ = now.mono_ms + context_.tuning.beat_ms;
  if (to_pool != nullptr && (beat || to_pool->must_send(now.mono_ms))) {
    v1::NodeState* out = effects.send(pool).mutable_pool()->mutable_node_state();
    *out = state();
    out->set_beat(now.mono_ms);
    to_pool->stamp(out->mutable_header(), now.mono_ms);
  }
  if ((beat && to_pool == nullptr) || tenant_.must_send(now.mono_ms)) {
    v1::NodeState* out = effects.send("tenant").mutable_tenant()->mutable_node_state();
    *out = state();
    tenant_.stamp(out->mutable_header(), now.mono_ms);
  }
  std::int64_t next = std::min(heartbeat_at_mono_ms_, tenant_.due());
  if (to_pool != nullptr) next = std::min(next, to_pool->due());
  return next;
}

NodeUse NodeMachine::use() const {
  NodeUse use;
  for (const ClaimKey& key : holders_) {
    for (const auto& [id, pod] : claims_.at(key).pods) {
      if (pod.holds_slot()) use.add(pod.order);
    }
  }
  return use;
}

}  // namespace ebb::actors
