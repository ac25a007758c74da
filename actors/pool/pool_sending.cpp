// What a pool says to its neighbours, and when.
#include <algorithm>

#include "actors/pool/pool_machine.hpp"

namespace ebb::actors {
void PoolMachine::send_due(Instant now, Effects& effects) {
  std::int64_t next = next_check_mono_ms_;
  if (idle_from_mono_ms_ > now.mono_ms && !waiting_.empty()) {
    next = std::min(next, idle_from_mono_ms_);
  }
  for (auto it = nodes_unsettled_.begin(); it != nodes_unsettled_.end();) {
    NodeEntry& node = nodes_.at(*it);
    if ((node.conversation.must_send(now.mono_ms) || node.owes_answer) && node.heard) {
      node.owes_answer = false;
      v1::NodeTerms* terms = effects.send("node/" + *it).mutable_node()->mutable_node_terms();
      terms->set_beat_seen(node.beat);
      node.conversation.stamp(terms->mutable_header(), now.mono_ms);
    }
    if (node.conversation.settled()) {
      it = nodes_unsettled_.erase(it);
      continue;
    }
    next = std::min(next, node.conversation.due());
    ++it;
  }
  if (!quotas_.empty()) {
    v1::PoolCapacity facts;
    bool made = false;
    for (auto& [id, quota] : quotas_) {
      if (capacity_changed_) {
        if (!made) facts = capacity();
        made = true;
        if (says_anything_new(facts, &quota.told)) quota.conversation.touch();
      }
      if (quota.conversation.must_send(now.mono_ms)) {
        if (!made) facts = capacity();
        made = true;
        v1::PoolCapacity* out =
            effects.send("quota/" + id).mutable_quota()->mutable_pool_capacity();
        *out = facts;
        quota.conversation.stamp(out->mutable_header(), now.mono_ms);
      }
      next = std::min(next, quota.conversation.due());
    }
    capacity_changed_ = false;
  }
  for (auto it = unsettled_.begin(); it != unsettled_.end();) {
    const ClaimKey key = *it;
    const auto found = claims_.find(key);
    ++it;
    if (found == claims_.end()) {
      unsettled_.erase(key);
      continue;
    }
    ClaimEntry& claim = found->second;
    send_claim(claim, now, effects);
    const bool settled = claim.quota.settled() && claim.workload.settled();
    if (!settled) next = std::min(next, claim.workload.due());
    // What its quota said of a former attempt gets no answer: to wake for that echo would be to
    // spin.
    if (!settled && claim.asked) next = std::min(next, claim.quota.due());
    if (settled) unsettled_.erase(key);
    maybe_forget(key);
  }
  effects.wake_at(std::max(next, now.mono_ms));
}

void PoolMachine::send_claim(ClaimEntry& claim, Instant now, Effects& effects) {
  if (claim.asked) {
    v1::ClaimAnswer answer = answer_of(claim);
    if (says_anything_new(answer, &claim.told_quota)) claim.quota.touch();
    if (claim.quota.must_send(now.mono_ms)) {
      claim.quota.stamp(answer.mutable_header(), now.mono_ms);
      *effects.send("quota/" + claim.request.quota()).mutable_quota()->mutable_claim_answer() =
          std::move(answer);
    }
  }
  v1::ClaimPlacement placement = placement_of(claim);
  const bool spoken = claim.workload.has_record() || claim.workload.heard();
  const bool gone = claim.use.phase() == v1::CLAIM_PHASE_GONE;
  const bool worth = claim.handed || claim.told_to_go || spoken;
  if (worth && !gone && says_anything_new(placement, &claim.told_workload)) claim.workload.touch();
  if (claim.workload.must_send(now.mono_ms)) {
    claim.workload.stamp(placement.mutable_header(), now.mono_ms);
    if (gone) placement.mutable_header()->set_wants_echo(false);
    *effects.send(claim.key.workload).mutable_workload()->mutable_claim_placement() =
        std::move(placement);
  }
}

v1::ClaimAnswer PoolMachine::answer_of(const ClaimEntry& claim) const {
  v1::ClaimAnswer answer;
  *answer.mutable_claim() = claim_of(claim.key);
  answer.set_attempt(claim.attempt);
  answer.set_state(claim.told_to_go ? v1::ANSWER_STATE_LEAVING : claim.state);
  answer.set_claim_class(claim.claim_class);
  answer.set_node_type(claim.node_type);
  if (claim.state == v1::ANSWER_STATE_UNPLACED) *answer.mutable_wait() = claim.wait;
  for (const HolderKey& key : claim.victims) {
    const auto entry = claims_.find(key.first);
    if (entry == claims_.end()) continue;
    const v1::PlaceClaim& request = entry->second.request;
    v1::VictimRef* victim = answer.add_victims();
    *victim->mutable_claim() = claim_of(key.first);
    victim->set_attempt(key.second);
    victim->set_quota(entry->second.asked ? request.quota() : entry->second.use.quota());
    const auto holder = holders_.find(key);
    if (holder != holders_.end() && !holder->second.pods.empty()) {
      const scheduling::NodeId node = holder->second.pods.begin()->second.place.node;
      victim->set_node_type(fleet_.node(node).type);
    }
    set(victim->mutable_amount(),
        total_of(entry->second.asked ? request.need() : entry->second.use.need()));
    *victim->mutable_for_claim() = claim_of(claim.key);
  }
  return answer;
}

v1::ClaimPlacement PoolMachine::placement_of(const ClaimEntry& claim) const {
  v1::ClaimPlacement placement;
  *placement.mutable_claim() = claim_of(claim.key);
  placement.set_attempt(claim.attempt);
  placement.set_claim_class(claim.claim_class);
  if (claim.told_to_go) *placement.mutable_preempt() = claim.preempt;
  for (const std::string& name : claim.dead_nodes) placement.add_dead_nodes(name);
  if (!claim.handed) return placement;
  std::set<std::string> silent;
  for (const scheduling::Place& place : claim.places) {
    if (is_silent(place.node)) silent.insert(node_names_.at(place.node));
  }
  for (const std::string& name : silent) placement.add_silent_nodes(name);
  placement.set_node_type(claim.node_type);
  for (const scheduling::Place& place : claim.places) {
    if (place.node == scheduling::kNone) continue;
    v1::PodPlace* out = placement.add_places();
    out->set_pod(place.pod);
    out->set_node(node_names_.at(place.node));
    for (const scheduling::GpuPart& part : place.gpus) {
      v1::GpuShare* share = out->add_gpus();
      share->set_gpu(part.gpu);
      share->set_gpu_milli(part.gpu_milli);
    }
    set(out->mutable_amount(), place.amount);
  }
  return placement;
}

PoolMachine::Amount PoolMachine::in_quota_on(scheduling::NodeId node) const {
  Amount sum;
  for (const scheduling::HolderId id : fleet_.holders_on(node)) {
    const Holder& holder = holders_.at(holder_keys_.at(id));
    if (holder.facts.holder_class != scheduling::HolderClass::InQuota) continue;
    for (const auto& [pod, held] : holder.pods) {
      if (held.place.node == node) sum += held.place.amount;
    }
  }
  return sum;
}

v1::PoolCapacity PoolMachine::capacity() const {
  Amounts live, lost, frozen;
  std::map<std::string, v1::NodeTypeFacts> types;
  for (const auto& [name, node] : nodes_) {
    if (!node.member || node.id == scheduling::kNone) continue;
    const std::string& type = fleet_.node(node.id).type;
    const Amount total = fleet_.node(node.id).total;
    if (node.lost) lost[type] += total;
    if (node.in_service()) {
      live[type] += total;
    } else {
      // Booked until it ends: it leaves the holding together with what it holds.
      frozen[type] += in_quota_on(node.id);
    }
    v1::NodeTypeFacts& facts = types[type];
    facts.set_node_type(type);
    facts.set_nodes(facts.nodes() + 1);
    set(facts.mutable_largest(), max(amount_of(facts.largest()), total));
  }
  v1::PoolCapacity capacity;
  live += frozen;
  set(capacity.mutable_frozen(), frozen);
  set(capacity.mutable_live(), live);
  set(capacity.mutable_lost(), lost);
  for (auto& [type, facts] : types) *capacity.add_node_types() = facts;
  capacity.set_known(known_);
  return capacity;
}

v1::PoolView PoolMachine::view(Instant now) const {
  v1::PoolView view;
  for (const auto& [name, node] : nodes_) {
    if (!node.member) continue;
    v1::PoolView::Node* out = view.add_nodes();
    out->set_node(name);
    out->set_node_type(node.facts.node_type());
    out->set_silent_ms(now.mono_ms - node.heard_mono_ms);
    out->set_state(node.fenced     ? "Fenced"
                   : node.lost     ? "Lost"
                   : node.suspect  ? "Suspect"
                   : !node.heard   ? "Unknown"
                   : node.drain    ? "Draining"
                   : node.cordoned ? "Cordoned"
                                   : "Ready");
    if (node.id == scheduling::kNone) continue;
    out->set_node_type(fleet_.node(node.id).type);
    set(out->mutable_total(), fleet_.node(node.id).total);
    Amount in_quota, idle;
    for (const scheduling::HolderId id : fleet_.holders_on(node.id)) {
      const HolderKey& key = holder_keys_.at(id);
      const Holder& holder = holders_.at(key);
      const auto claim = claims_.find(key.first);
      if (claim != claims_.end() && claim->second.in_use() && claim->second.attempt == key.second) {
        const scheduling::DrainAnswer drain = drain_answer(claim->second, false, now);
        if (!drain.moves) out->add_kept(key.first.workload + " " + drain.why);
      }
      for (const auto& [pod, held] : holder.pods) {
        if (held.place.node != node.id) continue;
        const bool is_idle = holder.facts.holder_class == scheduling::HolderClass::Idle;
        (is_idle ? idle : in_quota) += held.place.amount;
        v1::SlotPod* slot = out->add_pods();
        *slot->mutable_claim() = claim_of(key.first);
        slot->set_attempt(key.second);
        slot->set_pod(pod);
        for (const scheduling::GpuPart& part : held.place.gpus) {
          v1::GpuShare* share = slot->add_gpus();
          share->set_gpu(part.gpu);
          share->set_gpu_milli(part.gpu_milli);
        }
        set(slot->mutable_amount(), held.place.amount);
        slot->set_claim_class(is_idle ? v1::CLAIM_CLASS_IDLE : v1::CLAIM_CLASS_IN_QUOTA);
        slot->set_priority(holder.facts.priority);
        slot->set_started_wall_ms(holder.facts.started_ms);
      }
    }
    set(out->mutable_in_quota(), in_quota);
    set(out->mutable_idle(), idle);
  }
  for (const auto& [name, shape] : waiting_) {
    for (const WaitKey& key : shape.members) {
      const ClaimEntry& claim = claims_.at(key.key);
      if (claim.state != v1::ANSWER_STATE_UNPLACED) continue;
      v1::PoolView::Waiting* out = view.add_waiting();
      *out->mutable_claim() = claim_of(key.key);
      *out->mutable_wait() = shape.wait;
    }
  }
  return view;
}

}  // namespace ebb::actors
