// A claim at the pool: searched for, reserved, handed out, and whom that costs.
#include <algorithm>

#include "actors/pool/pool_machine.hpp"
#include "base/assert.hpp"

namespace ebb::actors {
namespace {
constexpr std::int64_t kIdleSettleMs = 300;
constexpr std::int64_t kIdleHeldMostMs = 1'000;

std::uint32_t product_index(v1::Product product) {
  switch (product) {
    case v1::PRODUCT_SERVICE:
      return 1;
    case v1::PRODUCT_INSTANCE:
      return 2;
    default:
      return 0;
  }
}

/// What makes two waiting claims equal for a search: where one finds nothing, the other need not
/// look.
std::string shape_of(const v1::PlaceClaim& request) {
  v1::PlaceClaim shape;
  shape.set_want(request.want());
  shape.set_claim_class(request.claim_class());
  shape.set_node_type(request.node_type());
  *shape.mutable_need() = request.need();
  shape.mutable_need()->clear_grace_period_ms();
  shape.mutable_need()->clear_run_at_most_ms();
  shape.mutable_need()->clear_priority();
  *shape.mutable_must_free() = request.must_free();
  *shape.mutable_rules() = request.rules();
  if (request.claim_class() == v1::CLAIM_CLASS_IDLE) shape.set_quota(request.quota());
  return shape.SerializeAsString();
}
}  // namespace

void PoolMachine::wait_for_place(ClaimEntry& claim) {
  stop_waiting(claim.key);
  claim.state = v1::ANSWER_STATE_UNSPECIFIED;
  const WaitKey key{claim.request.claim_class() == v1::CLAIM_CLASS_IN_QUOTA ? 0 : 1,
                    -claim.request.need().priority(), claim.request.since_wall_ms(), claim.key};
  const std::string name = shape_of(claim.request);
  Shape& shape = waiting_[name];
  shape.members.insert(key);
  shape.fresh.push_back(claim.key);
  waiting_keys_.emplace(claim.key, std::pair{name, key});
}

void PoolMachine::stop_waiting(const ClaimKey& key) {
  const auto it = waiting_keys_.find(key);
  if (it == waiting_keys_.end()) return;
  const auto shape = waiting_.find(it->second.first);
  shape->second.members.erase(it->second.second);
  if (shape->second.members.empty()) waiting_.erase(shape);
  waiting_keys_.erase(it);
}

void PoolMachine::place_waiting(Instant now, Effects& effects) {
  std::set<std::pair<WaitKey, std::string>> heads;
  for (auto& [name, shape] : waiting_) {
    const bool idle = shape.members.begin()->class_rank == 1;
    if (idle && now.mono_ms < idle_from_mono_ms_) continue;
    if (shape.failed_at_gain != gain_) heads.insert({*shape.members.begin(), name});
  }
  std::vector<std::string> unplaced;
  for (auto& [name, shape] : waiting_) {
    if (shape.failed_at_gain == gain_ && !shape.fresh.empty()) unplaced.push_back(name);
  }
  while (!heads.empty()) {
    const auto [place, name] = *heads.begin();
    heads.erase(heads.begin());
    ClaimEntry& claim = claims_.at(place.key);
    if (try_place(claim, now, effects)) {
      const auto shape = waiting_.find(name);
      if (shape != waiting_.end()) heads.insert({*shape->second.members.begin(), name});
      continue;
    }
    Shape& shape = waiting_.at(name);
    shape.failed_at_gain = gain_;
    shape.wait = claim.wait;
    changed(claim);
    unplaced.push_back(name);
  }
  for (const std::string& name : unplaced) {
    const auto shape = waiting_.find(name);
    if (shape != waiting_.end()) tell_unplaced(shape->second);
  }
}

/// What in-quota work leaves is on its way through the quota tree to those who are guaranteed it.
/// An idle claim that took it meanwhile would only be evicted again, so idle claims wait until that
/// has settled, but not for ever.
void PoolMachine::in_quota_moved() {
  if (idle_from_mono_ms_ <= now_mono_ms_) idle_held_since_mono_ms_ = now_mono_ms_;
  idle_from_mono_ms_ =
      std::min(now_mono_ms_ + kIdleSettleMs, idle_held_since_mono_ms_ + kIdleHeldMostMs);
}

/// Answers all of a shape that found nothing. In-quota claims that asked for a place are then their
/// quota's turn: it takes the charge back and asks for a plan; the pool must not hand out what is
/// no longer charged.
void PoolMachine::tell_unplaced(Shape& shape) {
  std::vector<ClaimKey> fresh = std::move(shape.fresh);
  shape.fresh.clear();
  const v1::WaitReason wait = shape.wait;
  for (const ClaimKey& key : fresh) {
    const auto it = claims_.find(key);
    if (it == claims_.end() || waiting_keys_.count(key) == 0) continue;
    ClaimEntry& claim = it->second;
    claim.state = v1::ANSWER_STATE_UNPLACED;
    claim.wait = wait;
    changed(claim);
    const bool once = claim.request.want() == v1::PLACE_WANT_PLACE &&
                      claim.request.claim_class() == v1::CLAIM_CLASS_IN_QUOTA;
    if (once) stop_waiting(key);
  }
}

bool PoolMachine::try_place(ClaimEntry& claim, Instant now, Effects& effects) {
  v1::WaitReason why;
  if (claim.request.claim_class() == v1::CLAIM_CLASS_IDLE && !idle_allowed(claim, &why)) {
    claim.state = v1::ANSWER_STATE_UNPLACED;
    claim.wait = why;
    return false;
  }
  scheduling::PlaceRequest request = request_of(claim, now);
  scheduling::PlaceAnswer answer = scheduling::decide_placement(fleet_, request);
  if (!answer.found && !request.avoid.empty()) {
    request.avoid.clear();  // better a node that refused once than none
    answer = scheduling::decide_placement(fleet_, request);
  }
  if (answer.found) {
    stop_waiting(claim.key);
    reserve(claim, answer, now, effects);
    return true;
  }
  claim.state = v1::ANSWER_STATE_UNPLACED;
  claim.node_type.clear();
  claim.wait.Clear();
  const std::uint32_t pods = pods_of(claim.request.need());
  if (answer.why == scheduling::NoPlace::Node) {
    claim.wait.set_code(v1::WAIT_CODE_NODE);
    claim.wait.set_sentence(gpus_text(answer.usable_gpu_milli) +
                            " GPUs are usable in sum, but only " +
                            std::to_string(answer.pods_that_fit) + " of " + std::to_string(pods) +
                            " pods fit on nodes");
  } else {
    claim.wait.set_code(v1::WAIT_CODE_CAPACITY);
    claim.wait.set_sentence(gpus_text(answer.usable_gpu_milli) + " GPUs are usable, needs " +
                            gpus_text(answer.wanted_gpu_milli));
  }
  if (answer.budget_ended) {
    claim.wait.set_sentence(claim.wait.sentence() + " (the search ended by its budget)");
  }
  return false;
}

scheduling::PlaceRequest PoolMachine::request_of(const ClaimEntry& claim, Instant now) const {
  const v1::PlaceClaim& asked = claim.request;
  scheduling::PlaceRequest request;
  for (const v1::PodShape& shape : asked.need().shapes()) {
    request.groups.push_back({shape.pods(), amount_of(shape.each())});
  }
  if (!asked.node_type().empty()) {
    request.node_types = {asked.node_type()};
  } else {
    request.node_types.assign(asked.need().node_types().begin(), asked.need().node_types().end());
  }
  request.take_idle = asked.claim_class() == v1::CLAIM_CLASS_IN_QUOTA;
  request.free_only = asked.claim_class() == v1::CLAIM_CLASS_IDLE;
  if (asked.want() == v1::PLACE_WANT_PLAN) {
    for (const v1::VictimRule& rule : asked.rules()) request.rules.push_back(rule_of(rule));
    request.must_free = amount_of(asked.must_free());
  }
  for (const std::string& name : claim.use.refused_by()) {
    const auto node = nodes_.find(name);
    if (node != nodes_.end() && node->second.id != scheduling::kNone) {
      request.avoid.push_back(node->second.id);
    }
  }
  request.now_ms = now.wall_ms;
  return request;
}

scheduling::TakeRule PoolMachine::rule_of(const v1::VictimRule& rule) const {
  scheduling::TakeRule take;
  take.quotas.assign(next_quota_number_, false);
  for (const auto& [id, quota] : quotas_) {
    const bool itself = id == rule.quota();
    take.quotas[quota.number] =
        (itself && rule.itself()) || (!itself && rule.descendants() && is_below(id, rule.quota()));
  }
  for (bool& allowed : take.products) allowed = rule.products().empty();
  for (const int product : rule.products()) {
    take.products[product_index(static_cast<v1::Product>(product))] = true;
  }
  take.priority_at_most = rule.priority_at_most();
  if (!rule.priorities().empty()) {
    take.priorities = 0;
    for (const int priority : rule.priorities()) {
      if (priority >= 0 && priority < 16) {
        take.priorities |= static_cast<std::uint16_t>(1u << priority);
      }
    }
  }
  return take;
}

bool PoolMachine::is_below(const std::string& quota, const std::string& ancestor) const {
  std::string id = quota;
  for (int depth = 0; depth < 64; ++depth) {
    const auto it = quotas_.find(id);
    if (it == quotas_.end() || it->second.facts.parent().empty()) return false;
    id = it->second.facts.parent();
    if (id == ancestor) return true;
  }
  return false;
}

/// A quota that is closed keeps what it leaves unused: idle claims of others may not go into that
/// much.
bool PoolMachine::idle_allowed(const ClaimEntry& claim, v1::WaitReason* why) const {
  Amounts kept;
  for (const auto& [id, quota] : quotas_) {
    if (!quota.facts.idle_closed()) continue;
    if (claim.request.quota() == id || is_below(claim.request.quota(), id)) continue;
    bool inside = false;
    for (const auto& [other, above] : quotas_) {
      inside = inside || (above.facts.idle_closed() && is_below(id, other));
    }
    if (inside) continue;
    Amounts unused = amounts_of(quota.facts.guarantee());
    unused -= amounts_of(quota.facts.used());
    for (const auto& [type, amount] : unused) kept[type] += positive(amount);
  }
  if (kept.empty()) return true;
  const Amount need = total_of(claim.request.need());
  Amount best;
  std::vector<std::string> types(claim.request.need().node_types().begin(),
                                 claim.request.need().node_types().end());
  if (types.empty()) types = fleet_.types();
  for (const std::string& type : types) {
    const Amount room = positive(fleet_.free(type) - kept[type]);
    if (need.gpu_milli <= room.gpu_milli) return true;
    best = max(best, room);
  }
  why->set_code(v1::WAIT_CODE_CAPACITY);
  why->set_sentence(gpus_text(best.gpu_milli) + " GPUs are free for idle use, needs " +
                    gpus_text(need.gpu_milli) + "; the rest is kept by quotas that do not lend");
  return false;
}

void PoolMachine::reserve(ClaimEntry& claim, const scheduling::PlaceAnswer& answer, Instant now,
                          Effects& effects) {
  claim.state = claim.request.want() == v1::PLACE_WANT_PLAN ? v1::ANSWER_STATE_PLANNED
                                                            : v1::ANSWER_STATE_PLACED;
  claim.places = answer.places;
  claim.node_type = answer.node_type;
  claim.handed = false;
  claim.wait.Clear();
  claim.victims.clear();
  changed(claim);
  const v1::Claim by = claim_of(claim.key);
  const auto why = why_these(claim, answer.victims, now);
  for (const scheduling::HolderId id : answer.victims) {
    const HolderKey key = holder_keys_.at(id);
    Holder& victim = holders_.at(key);
    if (victim.facts.holder_class == scheduling::HolderClass::Idle) {
      const auto entry = claims_.find(key.first);
      if (entry != claims_.end()) {
        ask_to_go(entry->second, v1::PREEMPT_REASON_IDLE_RECLAIMED, by, claim.request.quota(),
                  "runs on idle GPUs that an in-quota claim needs: " + why.at(id), effects);
      }
    } else {
      effects.decide("victim claim=" + text_of(key.first) + " for=" + text_of(claim.key) +
                     " why=\"" + why.at(id) + '"');
      claim.victims.push_back(key);
      victim.promised_to = claim.key;
    }
    refresh_facts(key, now);
  }
  const HolderKey key{claim.key, claim.attempt};
  Holder& holder = holder_of(key, facts_of(claim, now));
  for (const scheduling::Place& place : answer.places) hold_pod(key, holder, place, true, false);
  reserved_.insert(claim.key);
  effects.decide("place claim=" + text_of(claim.key) + " attempt=" + std::to_string(claim.attempt) +
                 " class=" + (claim.claim_class == v1::CLAIM_CLASS_IN_QUOTA ? "in_quota" : "idle") +
                 " nodes=" + std::to_string(answer.places.size()) +
                 " victims=" + std::to_string(answer.victims.size()));
}

void PoolMachine::ask_to_go(ClaimEntry& victim, v1::PreemptReason reason, const v1::Claim& by,
                            const std::string& by_quota, const std::string& sentence,
                            Effects& effects) {
  if (victim.told_to_go) return;
  victim.told_to_go = true;
  victim.preempt.Clear();
  victim.preempt.set_reason(reason);
  *victim.preempt.mutable_by() = by;
  victim.preempt.set_by_quota(by_quota);
  victim.preempt.set_sentence(sentence);
  effects.decide("preempt claim=" + text_of(victim.key) + " by=" + text_of(key_of(by)) +
                 " by_quota=" + by_quota + " reason=" + name_of(reason) + " why=\"" + sentence +
                 "\"");
  changed(victim);
}

/// Ends a placement that was not handed out: its slots are free again, its victims that were not
/// asked yet are spared.
void PoolMachine::drop_reservation(ClaimEntry& claim) {
  reserved_.erase(claim.key);
  for (const HolderKey& key : claim.victims) {
    const auto it = holders_.find(key);
    if (it == holders_.end() || it->second.promised_to != claim.key) continue;
    it->second.promised_to = {};
    scheduling::HolderFacts facts = it->second.facts;
    const auto entry = claims_.find(key.first);
    const bool going =
        it->second.node_says_leaving ||
        (entry != claims_.end() &&
         (entry->second.told_to_go || entry->second.use.phase() == v1::CLAIM_PHASE_LEAVING));
    facts.leaving = going;
    it->second.facts = facts;
    fleet_.update_holder(it->second.id, facts);
    gained();
  }
  claim.victims.clear();
  if (claim.handed) return;
  claim.places.clear();
  const auto it = holders_.find({claim.key, claim.attempt});
  if (it == holders_.end()) return;
  std::vector<std::uint32_t> pods;
  for (auto& [pod, held] : it->second.pods) {
    held.reserved = false;
    if (!held.on_node) pods.push_back(pod);
  }
  for (const std::uint32_t pod : pods) let_go_pod({claim.key, claim.attempt}, pod);
}

void PoolMachine::hand_out(Instant now, Effects& effects) {
  for (auto it = reserved_.begin(); it != reserved_.end();) {
    ClaimEntry& claim = claims_.at(*it);
    const auto holder = holders_.find({claim.key, claim.attempt});
    EBB_ASSERT(holder != holders_.end());
    bool lost_node = false;
    for (const scheduling::Place& place : claim.places) {
      lost_node = lost_node || !fleet_.usable(place.node);
    }
    if (lost_node) {
      // A node of the plan went away before it was handed out: plan anew.
      ++it;
      drop_reservation(claim);
      wait_for_place(claim);
      if (try_place(claim, now, effects)) it = reserved_.upper_bound(claim.key);
      changed(claim);
      continue;
    }
    if (claim.state != v1::ANSWER_STATE_PLACED || !fleet_.is_ready(holder->second.id)) {
      ++it;
      continue;
    }
    claim.handed = true;
    changed(claim);
    it = reserved_.erase(it);
  }
}

}  // namespace ebb::actors
