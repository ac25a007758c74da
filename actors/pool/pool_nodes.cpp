// Nodes as last seen, and who holds what on them.
#include <algorithm>

#include "actors/pool/pool_machine.hpp"
#include "base/assert.hpp"

namespace ebb::actors {
namespace {
scheduling::HolderProduct product_of(v1::Product product) {
  switch (product) {
    case v1::PRODUCT_SERVICE:
      return scheduling::HolderProduct::Service;
    case v1::PRODUCT_INSTANCE:
      return scheduling::HolderProduct::Instance;
    default:
      return scheduling::HolderProduct::Job;
  }
}
}  // namespace

bool PoolMachine::all_nodes_heard() const {
  if (!terms_known_) return false;
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [](const auto& n) { return !n.second.member || n.second.heard; });
}

void PoolMachine::update_usable(NodeEntry& node) {
  if (node.id == scheduling::kNone) return;
  fleet_.set_usable(node.id, node.in_service() && !node.suspect);
}

void PoolMachine::add_to_fleet(NodeEntry& node, const std::string& name, const std::string& type,
                               const Amount& total) {
  scheduling::NodeSpec spec;
  spec.name = name;
  spec.type = type;
  spec.total = total;
  spec.gpus = static_cast<std::uint32_t>(total.gpu_milli / 1000);
  node.id = fleet_.add_node(spec);
  node_names_[node.id] = name;
  update_usable(node);
}

void PoolMachine::take_table(NodeEntry& node, const v1::NodeState& state) {
  const std::string& name = state.facts().node();
  const bool changed_facts = node.facts.SerializeAsString() != state.facts().SerializeAsString();
  node.facts = state.facts();
  if (node.id == scheduling::kNone) {
    add_to_fleet(node, name, state.facts().node_type(), amount_of(state.facts().total()));
  }
  if (changed_facts) {
    update_usable(node);
    capacity_changed_ = true;
    gained();
  }
  std::set<std::pair<HolderKey, std::uint32_t>> present;
  for (const v1::SlotPod& pod : state.pods()) {
    const HolderKey key{key_of(pod.claim()), pod.attempt()};
    present.insert({key, pod.pod()});
    scheduling::Place place;
    place.pod = pod.pod();
    place.node = node.id;
    for (const v1::GpuShare& share : pod.gpus()) {
      place.gpus.push_back({share.gpu(), share.gpu_milli()});
    }
    place.amount = amount_of(pod.amount());
    scheduling::HolderFacts facts;
    facts.holder_class = pod.claim_class() == v1::CLAIM_CLASS_IDLE
                             ? scheduling::HolderClass::Idle
                             : scheduling::HolderClass::InQuota;
    facts.product = product_of(pod.product());
    facts.priority = pod.priority();
    const auto quota = quotas_.find(pod.quota());
    facts.quota = quota == quotas_.end() ? scheduling::kNone : quota->second.number;
    facts.started_ms = pod.started_wall_ms();
    // Nobody can be asked until its workload has made itself known.
    facts.spared = claims_.count(key.first) == 0;
    Holder& holder = holder_of(key, facts);
    hold_pod(key, holder, place, false, true);
    if (pod.state() == v1::POD_STATE_LEAVING && !holder.node_says_leaving) {
      holder.node_says_leaving = true;
      holder.facts.leaving = true;
      fleet_.update_holder(holder.id, holder.facts);
      gained();
    }
  }
  std::vector<std::pair<HolderKey, std::uint32_t>> over;
  for (const scheduling::HolderId id : fleet_.holders_on(node.id)) {
    const HolderKey& key = holder_keys_.at(id);
    for (const auto& [pod, held] : holders_.at(key).pods) {
      if (held.place.node == node.id && held.on_node && present.count({key, pod}) == 0) {
        over.emplace_back(key, pod);
      }
    }
  }
  for (const auto& [key, pod] : over) let_go_pod(key, pod);
}

PoolMachine::Holder& PoolMachine::holder_of(const HolderKey& key,
                                            const scheduling::HolderFacts& facts) {
  auto it = holders_.find(key);
  if (it != holders_.end()) return it->second;
  Holder holder;
  holder.id = fleet_.add_holder(facts);
  holder.facts = facts;
  if (facts.spared) spared_.insert(key);
  holder_keys_[holder.id] = key;
  return holders_.emplace(key, std::move(holder)).first->second;
}

void PoolMachine::hold_pod(const HolderKey&, Holder& holder, const scheduling::Place& place,
                           bool reserved, bool on_node) {
  const auto it = holder.pods.find(place.pod);
  if (it != holder.pods.end()) {
    if (!(it->second.place == place)) {
      fleet_.release(holder.id, place.pod);
      fleet_.hold(holder.id, place);
      it->second.place = place;
      gained();
    }
    it->second.reserved = it->second.reserved || reserved;
    it->second.on_node = it->second.on_node || on_node;
    return;
  }
  fleet_.hold(holder.id, place);
  if (!fleet_.usable(place.node)) capacity_changed_ = true;
  holder.pods.emplace(place.pod, HeldPod{place, reserved, on_node});
}

void PoolMachine::let_go_pod(const HolderKey& key, std::uint32_t pod) {
  const auto it = holders_.find(key);
  EBB_ASSERT(it != holders_.end());
  Holder& holder = it->second;
  if (holder.facts.holder_class == scheduling::HolderClass::InQuota) in_quota_moved();
  const auto held = holder.pods.find(pod);
  if (held != holder.pods.end() && !fleet_.usable(held->second.place.node)) {
    capacity_changed_ = true;
  }
  fleet_.release(holder.id, pod);
  holder.pods.erase(pod);
  gained();
  if (!holder.pods.empty()) return;
  fleet_.remove_holder(holder.id);
  holder_keys_.erase(holder.id);
  spared_.erase(key);
  holders_.erase(it);
}

/// Attempts below `before_attempt` hold nothing any more by their workload's word. A node's table
/// that still shows a pod of them is believed until it is renewed.
void PoolMachine::end_reservations(const ClaimKey& key, std::uint32_t before_attempt) {
  std::vector<std::pair<HolderKey, std::uint32_t>> over;
  for (auto it = holders_.lower_bound({key, 0});
       it != holders_.end() && it->first.first == key && it->first.second < before_attempt; ++it) {
    for (auto& [pod, held] : it->second.pods) {
      held.reserved = false;
      // A silent node cannot renew its table.
      if (!held.on_node || is_silent(held.place.node)) over.emplace_back(it->first, pod);
    }
    it->second.facts.leaving = true;
    fleet_.update_holder(it->second.id, it->second.facts);
  }
  for (const auto& [holder, pod] : over) let_go_pod(holder, pod);
  gained();
}

void PoolMachine::refresh_facts(const HolderKey& key, Instant now) {
  const auto it = holders_.find(key);
  if (it == holders_.end()) return;
  const auto claim = claims_.find(key.first);
  if (claim == claims_.end() || claim->second.attempt != key.second) return;
  scheduling::HolderFacts facts = facts_of(claim->second, now);
  facts.leaving =
      facts.leaving || it->second.node_says_leaving || !it->second.promised_to.workload.empty();
  const bool in_quota = facts.holder_class == scheduling::HolderClass::InQuota;
  if (in_quota && facts.leaving && !it->second.facts.leaving) in_quota_moved();
  const bool freer =
      (facts.leaving && !it->second.facts.leaving) || (!facts.spared && it->second.facts.spared);
  if (facts.holder_class != it->second.facts.holder_class) {
    for (const auto& [pod, held] : it->second.pods) {
      capacity_changed_ = capacity_changed_ || !fleet_.usable(held.place.node);
    }
  }
  it->second.facts = facts;
  fleet_.update_holder(it->second.id, facts);
  if (facts.spared) {
    spared_.insert(key);
  } else {
    spared_.erase(key);
  }
  if (freer) gained();
}

scheduling::HolderFacts PoolMachine::facts_of(const ClaimEntry& claim, Instant now) const {
  const v1::Need& need = claim.asked ? claim.request.need() : claim.use.need();
  const std::string& quota_id = claim.asked ? claim.request.quota() : claim.use.quota();
  scheduling::HolderFacts facts;
  facts.holder_class = claim.claim_class == v1::CLAIM_CLASS_IDLE ? scheduling::HolderClass::Idle
                                                                 : scheduling::HolderClass::InQuota;
  facts.product = product_of(need.product());
  facts.priority = need.priority();
  const auto quota = quotas_.find(quota_id);
  facts.quota = quota == quotas_.end() ? scheduling::kNone : quota->second.number;
  facts.started_ms = claim.in_use() ? claim.use.started_wall_ms() : now.wall_ms;
  facts.checkpoint_ms = claim.use.checkpoint_wall_ms();
  facts.leaving = claim.told_to_go || claim.use.phase() == v1::CLAIM_PHASE_LEAVING;
  // A reservation that was not handed out cannot be asked to go: nobody would answer.
  facts.spared = !claim.in_use();
  if (quota != quotas_.end() && claim.in_use() && quota->second.facts.min_run_ms() > 0) {
    facts.spared = now.wall_ms - claim.use.started_wall_ms() < quota->second.facts.min_run_ms();
  }
  return facts;
}

scheduling::Place PoolMachine::place_from(const v1::PodPlace& place) const {
  scheduling::Place out;
  out.pod = place.pod();
  const auto node = nodes_.find(place.node());
  out.node = node == nodes_.end() ? scheduling::kNone : node->second.id;
  for (const v1::GpuShare& share : place.gpus())
    out.gpus.push_back({share.gpu(), share.gpu_milli()});
  out.amount = amount_of(place.amount());
  return out;
}

}  // namespace ebb::actors
