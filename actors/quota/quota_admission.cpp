// The queue of a quota: who is charged, who is planned with victims, who goes to idle resources,
// who waits and why.
#include <algorithm>
#include <utility>

#include "actors/quota/quota_machine.hpp"
#include "base/assert.hpp"

namespace ebb::actors {
namespace {
constexpr std::int64_t kAgingEveryMs = 30'000;
}  // namespace

void QuotaMachine::admit(Instant now, Effects& effects) {
  if (next_aging_mono_ms_ <= now.mono_ms) {
    next_aging_mono_ms_ = now.mono_ms + kAgingEveryMs;
    age_queue(now.wall_ms);
    walk_due_ = true;
  }
  if (!walk_due_) return;
  walk_due_ = false;
  scheduling::QueueWalk walk(policy_);
  // The first of each shape, in the order of the whole queue. Charging takes claims out, so the
  // walk goes by key.
  std::set<std::pair<QueueKey, std::string>> heads;
  for (const auto& [shape, members] : queue_) heads.insert({*members.begin(), shape});
  while (!heads.empty()) {
    const auto [place, shape] = *heads.begin();
    heads.erase(heads.begin());
    ClaimState& claim = claims_.at(place.key);
    fresh_.erase(claim.key);
    if (!admit_one(claim, walk, now, effects)) continue;
    const auto members = queue_.find(shape);
    if (members == queue_.end()) continue;
    const auto next = members->second.upper_bound(place);
    if (next != members->second.end()) heads.insert({*next, shape});
  }
  const std::set<ClaimKey> rest = std::move(fresh_);
  fresh_.clear();
  for (const ClaimKey& key : rest) {
    const auto it = claims_.find(key);
    if (it == claims_.end() || queue_keys_.count(key) == 0) continue;
    const ClaimState& head = claims_.at(queue_.at(queue_keys_.at(key).first).begin()->key);
    ask_for_idle(it->second);
    set_wait(it->second, head.wait);
  }
  if (walk.may_try()) return;
  // Those behind the one that stopped the walk keep no reservation at the pool.
  const std::set<ClaimKey> planning = planning_;
  for (const ClaimKey& key : planning) {
    ClaimState& claim = claims_.at(key);
    if (claim.wait.code() != v1::WAIT_CODE_ORDER) continue;
    drop_plan(claim);
    set_stage(claim, Stage::Queued);
  }
}

bool QuotaMachine::admit_one(ClaimState& claim, scheduling::QueueWalk& walk, Instant now,
                             Effects& effects) {
  if (claim.stage == Stage::Planned) return true;  // charge_planned looks after it
  const bool holds_idle = claim.holds();
  if (claim.need.idle() == v1::IDLE_MODE_ONLY) {
    ask_for_idle(claim);
    if (claim.answer.state() == v1::ANSWER_STATE_UNPLACED) set_wait(claim, claim.answer.wait());
    return true;
  }
  const std::vector<std::string> types = types_for(claim);
  std::string covering;
  for (const std::string& type : types) {
    if (claim.amount.fits(available(type))) {
      covering = type;
      break;
    }
  }
  // One that runs on idle resources becomes guaranteed where it lies, so only that type's ledger
  // counts.
  if (holds_idle && covering != claim.held_type) {
    covering = claim.amount.fits(available(claim.held_type)) ? claim.held_type : "";
  }
  const std::int64_t waited = now.wall_ms - claim.since_wall_ms;
  if (!walk.may_try() || closing_) {
    if (claim.stage == Stage::Planning) {
      drop_plan(claim);
      set_stage(claim, Stage::Queued);
    }
    v1::WaitReason wait;
    wait.set_code(v1::WAIT_CODE_ORDER);
    wait.set_sentence("quota " + spec_.name() + " starts others first (" +
                      scheduling::name_of(policy_) + ")");
    set_wait(claim, covering.empty() ? quota_reason(claim) : wait);
  } else if (!covering.empty()) {
    if (claim.stage != Stage::Planning && (holds_idle || !claim.unplaced)) {
      charge(claim, covering, effects);
      return true;
    }
    if (claim.stage != Stage::Planning) ask_for_place(claim, covering);
    if (claim.answer.state() == v1::ANSWER_STATE_UNPLACED) set_wait(claim, claim.answer.wait());
    if (claim.takes_victims && claim.must_free.any_positive()) {
      // It was planned against a shortage that is gone: ask again without one.
      claim.must_free = {};
      claim.answer.Clear();
      changed(claim);
    }
    walk.blocked(claim.need.priority(), could_ever_hold(claim), waited);
  } else {
    const bool planning = !holds_idle && ask_for_plan(claim, types);
    if (!planning && claim.stage == Stage::Planning) {
      drop_plan(claim);
      set_stage(claim, Stage::Queued);
    }
    const bool no_place = planning && claim.answer.state() == v1::ANSWER_STATE_UNPLACED &&
                          claim.answer.wait().code() == v1::WAIT_CODE_NODE;
    set_wait(claim, no_place ? claim.answer.wait() : quota_reason(claim));
    if (!holds_idle) walk.blocked(claim.need.priority(), could_ever_hold(claim), waited);
  }
  ask_for_idle(claim);
  return false;
}

/// Idle resources for one that accepts them and is not covered.
void QuotaMachine::ask_for_idle(ClaimState& claim) {
  if (claim.idle_asked || !claim.waiting() || claim.stage != Stage::Queued) return;
  if (claim.need.idle() != v1::IDLE_MODE_ACCEPTED && claim.need.idle() != v1::IDLE_MODE_ONLY)
    return;
  claim.idle_asked = true;
  changed(claim);
}

void QuotaMachine::set_stage(ClaimState& claim, Stage stage) {
  claim.stage = stage;
  if (stage == Stage::Planning) {
    planning_.insert(claim.key);
  } else {
    planning_.erase(claim.key);
  }
  changed(claim);
}

/// Its charge was taken back for want of a place: two such claims that take turns at being charged
/// would keep each other from it for ever. The pool looks without a charge.
void QuotaMachine::ask_for_place(ClaimState& claim, const std::string& type) {
  if (!claim.waiting()) return;
  set_stage(claim, Stage::Planning);
  claim.plan_type = type;
  claim.must_free = {};
  claim.takes_victims = may_take_below(claim) || may_take_same_level(claim);
  claim.answer.Clear();
}

bool QuotaMachine::ask_for_plan(ClaimState& claim, const std::vector<std::string>& types) {
  if (!claim.waiting() || claim.plan_refused) return false;
  const bool below = may_take_below(claim);
  const bool same_level = may_take_same_level(claim);
  if (!below && !same_level) return false;
  // Plans are made one after the other: what one takes from the pot, the next may not count again.
  for (const ClaimKey& key : queue_planning_) {
    if (key != claim.key) return claim.stage == Stage::Planning;
  }
  if (claim.need.idle() == v1::IDLE_MODE_ACCEPTED && claim.stage == Stage::Queued) {
    // Idle resources first: they cost nobody anything.
    if (!claim.idle_asked || claim.answer.state() != v1::ANSWER_STATE_UNPLACED) return false;
    claim.idle_asked = false;
  }
  const std::string& type = claim.stage == Stage::Planning ? claim.plan_type : types.front();
  const Amount lack = positive(claim.amount - positive(below ? pot(type) : available(type)));
  if (claim.stage == Stage::Planning && claim.takes_victims && lack == claim.must_free) return true;
  set_stage(claim, Stage::Planning);
  claim.plan_type = type;
  claim.must_free = lack;
  claim.takes_victims = true;
  claim.answer.Clear();
  queue_planning_.insert(claim.key);
  changed(claim);
  return true;
}

void QuotaMachine::charge_planned(Instant, Effects& effects) {
  for (std::size_t i = 0; i < planned_.size();) {
    ClaimState& claim = claims_.at(planned_[i]);
    const std::string type = claim.plan_type;
    // Its own promise is not in its way; promises older than its own are.
    Amount older;
    for (std::size_t j = 0; j < i; ++j) {
      const ClaimState& other = claims_.at(planned_[j]);
      if (other.plan_type == type) older += other.amount;
    }
    const Amount room = scheduling::free_amount(account(type)) - older -
                        (claim.takes_victims ? Amount{} : owed_to_children(type));
    if (closing_ || !claim.amount.fits(room)) {
      ++i;
      if (claim.plan_victims.empty() && !claim.takes_victims) {
        // Reserved slots without cover would keep others away: back to the queue.
        drop_plan(claim);
        set_stage(claim, Stage::Queued);
        --i;
      } else {
        v1::WaitReason wait;
        wait.set_code(v1::WAIT_CODE_VICTIMS);
        wait.set_sentence(std::to_string(claim.plan_victims.size()) +
                          " victims are on their way out, quota " + spec_.name() + " has " +
                          gpus_text(positive(room).gpu_milli) + " GPUs free, needs " +
                          gpus_text(claim.amount.gpu_milli));
        set_wait(claim, wait);
      }
      continue;
    }
    charge(claim, type, effects);  // takes it out of planned_
  }
}

void QuotaMachine::charge(ClaimState& claim, const std::string& type, Effects& effects) {
  EBB_ASSERT(claim.stage != Stage::Charged);
  // Its victims may still be on their way: the plan stays listed until the claim binds.
  queue_planning_.erase(claim.key);
  planned_.erase(std::remove(planned_.begin(), planned_.end(), claim.key), planned_.end());
  set_stage(claim, Stage::Charged);
  claim.idle_asked = false;
  claim.charge = {claim.attempt, type, claim.amount};
  claim.answer.Clear();
  used_[type] += claim.amount;
  unqueue(claim);
  v1::ChargeRecord record;
  *record.mutable_claim() = claim_of(claim.key);
  record.set_attempt(claim.attempt);
  record.set_node_type(type);
  set(record.mutable_amount(), claim.amount);
  record.set_priority(claim.need.priority());
  record.set_product(claim.need.product());
  effects.save(context_.address + "#" + text_of(claim.key), "ChargeRecord", record);
  dirty_record_ =
      dirty_record_ || !children_.empty();  // R4: the returns it rests on, in the same save
  effects.decide("admit claim=" + text_of(claim.key) + " quota=" + spec_.quota_id() +
                 " class=in_quota gpus=" + gpus_text(claim.amount.gpu_milli));
  changed(claim);
}

void QuotaMachine::uncharge(ClaimState& claim, Effects& effects) {
  if (claim.stage != Stage::Charged) return;
  used_[claim.charge.node_type] -= claim.charge.amount;
  if (claim.counted_leaving) leaving_[claim.charge.node_type] -= claim.charge.amount;
  claim.counted_leaving = false;
  claim.charge = {};
  claim.borrowed = {};
  borrowers_.erase(claim.key);
  set_stage(claim, Stage::Queued);
  effects.erase(context_.address + "#" + text_of(claim.key), "ChargeRecord");
  changed(claim);
}

void QuotaMachine::drop_plan(ClaimState& claim) {
  queue_planning_.erase(claim.key);
  plans_.erase(claim.key);
  claim.takes_victims = false;
  claim.must_free = {};
  claim.plan_victims.clear();
  if (claim.stage != Stage::Charged) {
    claim.borrowed = {};
    borrowers_.erase(claim.key);
  }
  const std::map<std::string, scheduling::Due> booked = std::exchange(claim.plan_dues, {});
  const auto it = std::find(planned_.begin(), planned_.end(), claim.key);
  if (it == planned_.end()) return;
  planned_.erase(it);
  // Victims that have not been asked yet are spared: first what was booked for this very plan, so
  // that the dues of other plans stay with the children whose victims they are.
  const std::string& type = claim.plan_type;
  Amount excess =
      positive(due_sum(type) - positive(promised(type) - scheduling::free_amount(account(type))));
  std::vector<scheduling::Due*> dues;
  for (auto& [id, edge] : children_) {
    scheduling::Due& due = edge.due[type];
    dues.push_back(&due);
    const auto own = booked.find(id);
    if (own == booked.end()) continue;
    for (auto part : {&scheduling::Due::victims, &scheduling::Due::unused}) {
      const Amount cut = min(excess, min(due.*part, own->second.*part));
      due.*part -= cut;
      excess -= cut;
    }
  }
  scheduling::lift_dues(dues, promised(type) - scheduling::free_amount(account(type)));
  changed(claim);
}

void QuotaMachine::requeue(ClaimState& claim, std::int64_t wall_ms) {
  unqueue(claim);
  if (claim.stage == Stage::Charged || claim.phase == v1::CLAIM_PHASE_LEAVING) return;
  if (claim.holds() && claim.need.idle() != v1::IDLE_MODE_ACCEPTED) return;
  const QueueKey key{
      -scheduling::order_priority(policy_, claim.need.priority(), wall_ms - claim.since_wall_ms),
      claim.since_wall_ms, claim.key};
  v1::Need shape = claim.need;
  shape.clear_grace_period_ms();
  shape.clear_run_at_most_ms();
  const std::string name =
      shape.SerializeAsString() + (claim.holds() ? "@" + claim.held_type : std::string{});
  queue_[name].insert(key);
  queue_keys_.emplace(claim.key, std::pair{name, key});
  fresh_.insert(claim.key);
}

void QuotaMachine::unqueue(const ClaimState& claim) {
  const auto it = queue_keys_.find(claim.key);
  if (it == queue_keys_.end()) return;
  const auto members = queue_.find(it->second.first);
  members->second.erase(it->second.second);
  if (members->second.empty()) queue_.erase(members);
  queue_keys_.erase(it);
}

void QuotaMachine::age_queue(std::int64_t wall_ms) {
  if (policy_ != scheduling::QueuePolicy::Intelligent) return;
  std::vector<ClaimKey> risen;
  for (const auto& [key, place] : queue_keys_) {
    const ClaimState& claim = claims_.at(key);
    const int priority =
        scheduling::order_priority(policy_, claim.need.priority(), wall_ms - claim.since_wall_ms);
    if (priority != -place.second.negative_priority) risen.push_back(key);
  }
  for (const ClaimKey& key : risen) requeue(claims_.at(key), wall_ms);
}

std::vector<std::string> QuotaMachine::types_for(const ClaimState& claim) const {
  if (claim.need.node_types_size() > 0) {
    return {claim.need.node_types().begin(), claim.need.node_types().end()};
  }
  std::vector<std::string> types = node_types();
  if (types.empty()) types.emplace_back();
  return types;
}

/// What a new claim of this quota may be charged against.
scheduling::Amount QuotaMachine::available(std::string_view type) const {
  const Amount free = scheduling::free_amount(account(type)) - promised(type);
  // What children are guaranteed and have not been given yet is theirs, unless this quota may take
  // it back.
  return spec_.child_preemption() ? free : free - owed_to_children(type);
}

/// What could be used by a claim of this quota without evicting anyone in-quota: free here, and
/// unused below.
scheduling::Amount QuotaMachine::pot(std::string_view type) const {
  Amount sum = scheduling::free_amount(account(type)) - promised(type) + due_sum(type);
  for (const auto& [id, edge] : children_) {
    const auto due = edge.due.find(type);
    sum += scheduling::spare({.booked = edge.booked()[type],
                              .used = edge.used[type],
                              .due = due == edge.due.end() ? scheduling::Due{} : due->second,
                              .victims_held = {}});
  }
  return sum;
}

bool QuotaMachine::may_take_below(const ClaimState&) const {
  return spec_.child_preemption() && !children_.empty();
}

bool QuotaMachine::may_take_same_level(const ClaimState& claim) const {
  if (!spec_.self_preemption()) return false;
  const auto& priorities = spec_.preemptor_priorities();
  return std::find(priorities.begin(), priorities.end(), claim.need.priority()) != priorities.end();
}

bool QuotaMachine::could_ever_hold(const ClaimState& claim) const {
  for (const std::string& type : types_for(claim)) {
    if (claim.amount.fits(max(guarantee_[type], holding_[type]))) return true;
  }
  return false;
}

v1::WaitReason QuotaMachine::quota_reason(const ClaimState& claim) const {
  v1::WaitReason wait;
  wait.set_code(v1::WAIT_CODE_QUOTA);
  const std::string type = types_for(claim).front();
  const Amount room = positive(available(type));
  const Amount guarantee = guarantee_[type];
  Amount entitled = guarantee - used_[type];
  for (const auto& [id, edge] : children_) entitled -= edge.guarantee[type];
  if (claim.amount.fits(entitled)) {
    // Guaranteed, but not there: nodes are missing, or others still hold it.
    wait.set_code(v1::WAIT_CODE_CAPACITY);
    wait.set_sentence("quota " + spec_.name() + " is guaranteed " + gpus_text(guarantee.gpu_milli) +
                      " GPUs and holds " + gpus_text(holding_[type].gpu_milli) + " now, " +
                      gpus_text(room.gpu_milli) + " of them free; the " +
                      (pods_of(claim.need) > 1 ? "gang" : "pod") + " needs " +
                      gpus_text(claim.amount.gpu_milli));
    return wait;
  }
  if (claim.amount.gpu_milli > room.gpu_milli) {
    wait.set_sentence("quota " + spec_.name() + " has " + gpus_text(room.gpu_milli) + " of " +
                      gpus_text(guarantee.gpu_milli) + " GPUs free, the " +
                      (pods_of(claim.need) > 1 ? "gang" : "pod") + " needs " +
                      gpus_text(claim.amount.gpu_milli));
  } else if (claim.amount.cpu_milli > room.cpu_milli) {
    wait.set_sentence("quota " + spec_.name() + " has " + std::to_string(room.cpu_milli / 1000) +
                      " of " + std::to_string(guarantee.cpu_milli / 1000) +
                      " CPU cores free, the claim needs " +
                      std::to_string((claim.amount.cpu_milli + 999) / 1000));
  } else {
    wait.set_sentence("quota " + spec_.name() + " has " + std::to_string(room.memory_bytes >> 30) +
                      " of " + std::to_string(guarantee.memory_bytes >> 30) +
                      " GiB memory free, the claim needs " +
                      std::to_string((claim.amount.memory_bytes + (1ll << 30) - 1) >> 30));
  }
  return wait;
}

void QuotaMachine::set_wait(ClaimState& claim, v1::WaitReason wait) {
  if (wait.code() != claim.wait_told.code()) {
    claim.wait_told = wait;
    changed(claim);
  }
  claim.wait = std::move(wait);
}

}  // namespace ebb::actors
