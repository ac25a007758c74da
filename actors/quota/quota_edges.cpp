// The edges of a quota: returning to the parent, recalling from children, giving to children.
#include <algorithm>

#include "actors/quota/quota_machine.hpp"

namespace ebb::actors {
namespace {
bool allows(const v1::VictimFilter& filter, const v1::Need& need) {
  if (need.priority() > filter.priority_at_most()) return false;
  if (filter.products().empty()) return true;
  return std::find(filter.products().begin(), filter.products().end(), need.product()) !=
         filter.products().end();
}
}  // namespace

void QuotaMachine::return_to_parent(Effects& effects) {
  if (is_root()) return;
  if (may_evict_) evict_listed(effects);
  for (const auto& [type, level] : hold_at_most_) {
    const scheduling::Restitution answer =
        scheduling::decide_restitution(account(type), level, due_sum(type));
    if (answer.now.any_positive()) {
      returned_total_[type] += answer.now;  // R3: saved below, before it is told
      holding_[type] -= answer.now;
      dirty_record_ = true;
    }
    if (!answer.from_victims.any_positive()) continue;
    Amount lack = answer.from_victims;
    if (may_evict_) lack = choose_victims(type, lack, effects);
    book_dues(type, lack, may_evict_ ? victims_to_pass_on() : std::vector<v1::VictimRef>{});
  }
}

/// The parent's victims that lie below and that no child has been asked for yet.
std::vector<v1::VictimRef> QuotaMachine::victims_to_pass_on() {
  std::vector<v1::VictimRef> fresh;
  std::set<std::string> listed;
  for (const v1::VictimRef& victim : recall_victims_) {
    if (branch_of(victim.quota()).empty()) continue;
    const std::string name =
        text_of(key_of(victim.claim())) + "#" + std::to_string(victim.attempt());
    listed.insert(name);
    if (recall_booked_.count(name) == 0) fresh.push_back(victim);
  }
  recall_booked_ = std::move(listed);
  return fresh;
}

/// Asks the own claims to go that the parent listed, where its filter allows it. A plan needs the
/// slots they lie on: units that are free here do not stand in for those.
void QuotaMachine::evict_listed(Effects& effects) {
  const bool scaled = recall_reason_ == v1::PREEMPT_REASON_QUOTA_SCALED;
  for (const v1::VictimRef& victim : recall_victims_) {
    const auto it = claims_.find(key_of(victim.claim()));
    if (it == claims_.end() || it->second.attempt != victim.attempt()) continue;
    ClaimState& claim = it->second;
    if (claim.stage != Stage::Charged || claim.charge.node_type != victim.node_type()) continue;
    if (!scaled && !allows(filter_, claim.need)) continue;
    tell_to_go(claim, recall_reason_, victim.for_claim(), spec_.parent_id(),
               "chosen by the pool's plan", effects);
  }
}

/// Asks own claims to go by own choice, where that is allowed, until they cover `lack`. Returns
/// what is left uncovered.
scheduling::Amount QuotaMachine::choose_victims(const std::string& type, Amount lack,
                                                Effects& effects) {
  const bool scaled = recall_reason_ == v1::PREEMPT_REASON_QUOTA_SCALED;
  const bool listed_below =
      std::any_of(recall_victims_.begin(), recall_victims_.end(), [&](const v1::VictimRef& victim) {
        return victim.node_type() == type && victim.quota() != spec_.quota_id();
      });
  const bool own_choice =
      scaled || (recall_reason_ == v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION && !listed_below);
  if (!own_choice || !lack.any_positive()) return lack;
  std::vector<ClaimState*> candidates;
  for (auto& [key, claim] : claims_) {
    if (claim.stage != Stage::Charged || claim.counted_leaving || claim.charge.node_type != type) {
      continue;
    }
    if (!scaled && !allows(filter_, claim.need)) continue;
    candidates.push_back(&claim);
  }
  // Lowest priority first, the newest among equals.
  std::sort(candidates.begin(), candidates.end(), [](const ClaimState* a, const ClaimState* b) {
    if (a->need.priority() != b->need.priority()) return a->need.priority() < b->need.priority();
    if (a->started_wall_ms != b->started_wall_ms) return a->started_wall_ms > b->started_wall_ms;
    return a->key > b->key;
  });
  std::vector<ClaimState*> chosen;
  Amount left = lack;
  for (ClaimState* claim : candidates) {
    if (!left.any_positive()) break;
    chosen.push_back(claim);
    left = positive(left - claim->charge.amount);
  }
  // Given back from the dearest end where not needed.
  for (std::size_t i = chosen.size(); i-- > 0;) {
    Amount others;
    for (std::size_t j = 0; j < chosen.size(); ++j) {
      if (j != i) others += chosen[j]->charge.amount;
    }
    if (!positive(lack - others).any_positive())
      chosen.erase(chosen.begin() + static_cast<long>(i));
  }
  for (ClaimState* claim : chosen) {
    if (tell_to_go(*claim, recall_reason_, v1::Claim{}, spec_.parent_id(),
                   "lowest priority, newest first", effects)) {
      lack = positive(lack - claim->charge.amount);
    }
  }
  return lack;
}

bool QuotaMachine::tell_to_go(ClaimState& claim, v1::PreemptReason reason, const v1::Claim& by,
                              const std::string& by_quota, const std::string& sentence,
                              Effects& effects) {
  if (claim.counted_leaving || claim.stage != Stage::Charged) return false;
  claim.preempted = true;
  claim.preempt.Clear();
  claim.preempt.set_reason(reason);
  *claim.preempt.mutable_by() = by;
  claim.preempt.set_by_quota(by_quota);
  claim.preempt.set_sentence(sentence);
  claim.counted_leaving = true;
  leaving_[claim.charge.node_type] += claim.charge.amount;
  effects.decide("preempt claim=" + text_of(claim.key) + " quota=" + spec_.quota_id() +
                 " by=" + text_of(key_of(by)) + " by_quota=" + by_quota +
                 " reason=" + name_of(reason) + " why=\"" + sentence + "\"");
  changed(claim);
  return true;
}

void QuotaMachine::recall_from_children() {
  for (const std::string& type : node_types()) {
    // A root that lost nodes takes back what children do not use; nobody is evicted for that.
    const Amount deficit = positive(Amount{} - scheduling::free_amount(account(type)));
    if (is_root() && deficit.any_positive()) {
      book_dues(type, positive(deficit - due_sum(type)), {});
    }
    const bool recalled = !is_root() && hold_at_most_.contains(type) &&
                          positive(holding_[type] - hold_at_most_[type]).any_positive();
    lend_between_children(type);
    bool planned = same_level_active_;
    for (const ClaimKey& key : plans_) planned = planned || claims_.at(key).plan_type == type;
    for (const auto& [id, edge] : children_) planned = planned || edge.wanted[type].any_positive();
    if (planned || recalled || deficit.any_positive()) continue;
    for (auto& [id, edge] : children_) edge.due.erase(type);
  }
}

/// A child that waits for units of its guarantee gets what a sibling leaves unused: nobody is hurt,
/// and the sibling gets it back the same way.
void QuotaMachine::lend_between_children(const std::string& type) {
  for (const auto& [id, edge] : children_) {
    const Amount lack =
        min(edge.wanted[type], positive(level_of(edge)[type] - edge.booked()[type]));
    if (!lack.any_positive()) continue;
    const Amount room = positive(scheduling::free_amount(account(type)) - promised(type));
    book_dues(type, positive(lack - room - due_sum(type)), {}, id);
  }
}

/// What waits here and below for units of the guarantee that are not held.
scheduling::Amounts QuotaMachine::wanted() const {
  Amounts sum;
  for (const auto& [shape, members] : queue_) {
    const ClaimState& claim = claims_.at(members.begin()->key);
    if (claim.need.idle() == v1::IDLE_MODE_ONLY) continue;
    sum[types_for(claim).front()] += claim.amount * static_cast<std::int64_t>(members.size());
  }
  for (const auto& [id, edge] : children_) sum += edge.wanted;
  Amounts lacking;
  for (const auto& [type, amount] : sum) {
    const Amount free = positive(scheduling::free_amount(account(type)));
    lacking[type] = min(positive(amount - free), positive(guarantee_[type] - holding_[type]));
  }
  return lacking;
}

std::map<std::string, scheduling::Due> QuotaMachine::book_dues(
    const std::string& type, const Amount& amount, const std::vector<v1::VictimRef>& victims,
    const std::string& sparing) {
  std::vector<scheduling::Lender> lenders;
  std::vector<Edge*> edges;
  Amount sum = amount;
  Amount from_victims;
  for (auto& [id, edge] : children_) {
    if (id == sparing) continue;
    scheduling::Lender lender{.booked = edge.booked()[type],
                              .used = edge.used[type],
                              .due = edge.due[type],
                              .victims_held = {}};
    for (const v1::VictimRef& victim : victims) {
      if (victim.node_type() == type && branch_of(victim.quota()) == id) {
        lender.victims_held += amount_of(victim.amount());
      }
    }
    from_victims += lender.victims_held;
    lenders.push_back(lender);
    edges.push_back(&edge);
  }
  // Victims go as a whole even where a part would do, so at least what they hold comes back.
  sum = max(sum, from_victims);
  const std::vector<scheduling::Due> dues = scheduling::decide_recall(lenders, sum);
  std::map<std::string, scheduling::Due> booked;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    edges[i]->due[type].unused += dues[i].unused;
    edges[i]->due[type].victims += dues[i].victims;
    booked[edges[i]->id] = dues[i];
  }
  return booked;
}

/// Children's claims that take from siblings: each sibling owes what its victims hold, once per
/// plan.
void QuotaMachine::book_same_level() {
  std::set<std::string> present;
  for (const auto& [id, edge] : children_) {
    for (const v1::Demand& demand : edge.demand) {
      if (demand.victims().empty()) continue;
      const std::string plan = demand.SerializeAsString();
      present.insert(plan);
      if (same_level_booked_.count(plan) != 0) continue;
      std::vector<v1::VictimRef> victims;
      for (const v1::VictimRef& victim : demand.victims()) {
        if (branch_of(victim.quota()) != id) victims.push_back(victim);
      }
      book_dues(demand.node_type(), {}, victims);
    }
  }
  same_level_booked_ = std::move(present);
  same_level_active_ = !same_level_booked_.empty();
}

void QuotaMachine::give_to_children() {
  for (const std::string& type : node_types()) {
    Amount room = positive(scheduling::free_amount(account(type)) - promised(type));
    // Those that a same-level claim was planned for come first: the units were freed for them. Then
    // those that wait for units of their guarantee, then the rest.
    for (const int turn : {0, 1, 2}) {
      for (auto& [id, edge] : children_) {
        if (turn == 0 && edge.demand.empty()) continue;
        const auto due = edge.due.find(type);
        if (due != edge.due.end() && due->second.total().any_positive()) continue;
        Amount give = min(room, positive(level_of(edge)[type] - edge.booked()[type]));
        if (turn == 1) give = min(give, edge.wanted[type]);
        if (!give.any_positive()) continue;
        edge.given[type] += give;  // R2: saved before it is told
        room -= give;
        dirty_record_ = true;
      }
    }
  }
}

/// What a child may hold: its guarantee and what it borrows at the same level, less what it has
/// been asked to return.
scheduling::Amounts QuotaMachine::level_of(const Edge& edge) const {
  Amounts level = edge.closing ? Amounts{} : edge.guarantee;
  if (!edge.closing) {
    for (const v1::Demand& demand : edge.demand) {
      level[demand.node_type()] += amount_of(demand.amount());
    }
  }
  for (const auto& [type, booked] : edge.booked()) {
    const auto due = edge.due.find(type);
    if (due != edge.due.end() && due->second.total().any_positive()) {
      level[type] = min(level[type], positive(booked - due->second.total()));
    } else {
      level[type] += Amount{};  // listed even at zero: an absent type would be without bound
    }
  }
  return level;
}

scheduling::Amount QuotaMachine::due_sum(std::string_view type) const {
  Amount sum;
  for (const auto& [id, edge] : children_) {
    const auto due = edge.due.find(type);
    if (due != edge.due.end()) sum += due->second.total();
  }
  return sum;
}

scheduling::Amount QuotaMachine::promised(std::string_view type) const {
  Amount sum;
  for (const ClaimKey& key : planned_) {
    const ClaimState& claim = claims_.at(key);
    if (claim.plan_type == type) sum += claim.amount;
  }
  return sum;
}

scheduling::Amount QuotaMachine::owed_to_children(std::string_view type) const {
  Amount sum;
  for (const auto& [id, edge] : children_) {
    sum += positive(level_of(edge)[type] - edge.booked()[type]);
  }
  return sum;
}

std::string QuotaMachine::branch_of(const std::string& quota_id) const {
  if (children_.count(quota_id) != 0) return quota_id;
  const auto it = branches_.find(quota_id);
  return it == branches_.end() ? std::string{} : it->second;
}

scheduling::Account QuotaMachine::account(std::string_view type) const {
  scheduling::Account account;
  account.holding = holding_[type];
  for (const auto& [id, edge] : children_) {
    account.booked += edge.given[type] - edge.returned_seen[type];
  }
  account.used = used_[type];
  account.leaving = leaving_[type];
  return account;
}

scheduling::Amounts QuotaMachine::used_in_subtree() const {
  Amounts used = used_;
  for (const auto& [id, edge] : children_) used += edge.used;
  return used;
}

std::vector<std::string> QuotaMachine::node_types() const {
  Amounts all;
  for (const auto& [type, amount] : guarantee_) all[type];
  for (const auto& [type, amount] : holding_) all[type];
  std::vector<std::string> types;
  for (const auto& [type, amount] : all) types.push_back(type);
  return types;
}

}  // namespace ebb::actors
