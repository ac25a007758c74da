// The life of nodes at their pool: silence and what follows from it, drains.
#include <algorithm>

#include "actors/pool/pool_machine.hpp"

namespace ebb::actors {
namespace {
constexpr std::int64_t kCheckEveryMs = 1'000;
// Checks further apart than this: the pool itself did not run, so nobody could be heard.
constexpr std::int64_t kOwnPauseMs = 4'000;
}  // namespace

void PoolMachine::check_nodes(Instant now, Effects& effects) {
  if (now.mono_ms < next_check_mono_ms_) return;
  const std::int64_t paused_ms = now.mono_ms - last_check_mono_ms_ - kCheckEveryMs;
  if (paused_ms > kOwnPauseMs) {
    for (auto& [name, node] : nodes_) {
      if (node.heard_mono_ms <= last_check_mono_ms_) node.heard_mono_ms += paused_ms;
    }
  }
  last_check_mono_ms_ = now.mono_ms;
  next_check_mono_ms_ = now.mono_ms + kCheckEveryMs;
  for (auto& [name, node] : nodes_) {
    if (!node.member) continue;
    check_health(name, node, now, effects);
    if (node.suspect) conclude_from_silence(name, node, now, effects);
    if (node.drain) drain_node(name, node, now, effects);
  }
  for (auto it = spared_.begin(); it != spared_.end();) {
    const HolderKey key = *it++;
    refresh_facts(key, now);
  }
}

void PoolMachine::check_health(const std::string& name, NodeEntry& node, Instant now,
                               Effects& effects) {
  const std::int64_t silent_ms = now.mono_ms - node.heard_mono_ms;
  const scheduling::NodeHealth health = scheduling::decide_node_health(
      silent_ms, context_.tuning.node_lost_after_ms, context_.tuning.beat_ms);
  if (!node.suspect && health != scheduling::NodeHealth::Ready) {
    node.suspect = true;
    update_usable(node);
    tell_claims_on(node);
    effects.alarm("node suspect node=" + name + " silent_ms=" + std::to_string(silent_ms));
  }
  if (!node.lost && health == scheduling::NodeHealth::Lost) {
    node.lost = true;
    capacity_changed_ = true;
    effects.alarm("node lost node=" + name + " silent_ms=" + std::to_string(silent_ms));
  }
}

/// Of which attempts on a silent node it is certain that they are over. Said once, it stays said:
/// their workloads may have begun anew.
void PoolMachine::conclude_from_silence(const std::string& name, NodeEntry& node, Instant now,
                                        Effects& effects) {
  if (node.id == scheduling::kNone) return;
  const std::int64_t silent_ms = now.mono_ms - node.heard_mono_ms;
  for (const scheduling::HolderId id : fleet_.holders_on(node.id)) {
    const HolderKey& key = holder_keys_.at(id);
    const auto found = claims_.find(key.first);
    if (found == claims_.end() || found->second.attempt != key.second) continue;
    ClaimEntry& claim = found->second;
    if (!claim.in_use() || claim.dead_nodes.count(name) != 0) continue;
    // A node that was never heard here may be an older one, which knows no stop_after; but then
    // its pods were placed before this pool began, by one that had heard it.
    const bool keeps_dead_man = !node.heard || node.beat > 0;
    const bool by_own_hand =
        keeps_dead_man && scheduling::is_dead_by_own_hand(silent_ms, claim.use.stop_after_ms(),
                                                          claim.use.need().grace_period_ms());
    if (!node.fenced && !by_own_hand) continue;
    claim.dead_nodes.insert(name);
    changed(claim);
    effects.decide("dead claim=" + text_of(key.first) + " attempt=" + std::to_string(key.second) +
                   " node=" + name + " silent_ms=" + std::to_string(silent_ms) +
                   " proof=" + (node.fenced ? "fence" : "stop_after"));
  }
}

void PoolMachine::drain_node(const std::string& name, NodeEntry& node, Instant now,
                             Effects& effects) {
  if (node.id == scheduling::kNone) return;
  const std::vector<scheduling::HolderId> holders = fleet_.holders_on(node.id);
  for (const bool idle : {true, false}) {
    for (const scheduling::HolderId id : holders) {
      const HolderKey& key = holder_keys_.at(id);
      const auto claim = claims_.find(key.first);
      if (claim == claims_.end() || claim->second.attempt != key.second) continue;
      if (!claim->second.in_use()) continue;
      if ((claim->second.claim_class == v1::CLAIM_CLASS_IDLE) != idle) continue;
      if (!drain_answer(claim->second, node.force, now).moves) continue;
      ask_to_go(claim->second, v1::PREEMPT_REASON_NODE_DRAINED, v1::Claim{}, "",
                "node " + name + " is being drained", effects);
    }
  }
}

scheduling::DrainAnswer PoolMachine::drain_answer(const ClaimEntry& claim, bool force,
                                                  Instant now) const {
  const v1::Need& need = claim.asked ? claim.request.need() : claim.use.need();
  const auto quota = quotas_.find(claim.asked ? claim.request.quota() : claim.use.quota());
  scheduling::DrainFacts facts;
  facts.idle = claim.claim_class == v1::CLAIM_CLASS_IDLE;
  facts.instance = need.product() == v1::PRODUCT_INSTANCE;
  facts.starting = claim.use.started_wall_ms() == 0;
  facts.ran_ms = facts.starting ? 0 : now.wall_ms - claim.use.started_wall_ms();
  if (quota != quotas_.end()) facts.min_run_ms = quota->second.facts.min_run_ms();
  return scheduling::decide_drain(facts, force);
}

bool PoolMachine::is_silent(scheduling::NodeId id) const {
  const auto name = node_names_.find(id);
  return name != node_names_.end() && nodes_.at(name->second).suspect;
}

/// What is said to them of their nodes has changed.
void PoolMachine::tell_claims_on(const NodeEntry& node) {
  if (node.id == scheduling::kNone) return;
  for (const scheduling::HolderId id : fleet_.holders_on(node.id)) {
    const auto claim = claims_.find(holder_keys_.at(id).first);
    if (claim != claims_.end()) changed(claim->second);
  }
}

}  // namespace ebb::actors
