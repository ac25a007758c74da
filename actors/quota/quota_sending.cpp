// What a quota says to its neighbours, and when.
#include <algorithm>

#include "actors/quota/quota_machine.hpp"

namespace ebb::actors {
namespace {
std::string quota_address(const std::string& id) { return "quota/" + id; }

}  // namespace

void QuotaMachine::send_facts(Instant now, Effects& effects) {
  v1::QuotaFacts facts = quota_facts();
  if (says_anything_new(facts, &told_pool_)) pool_.touch();
  if (pool_.must_send(now.mono_ms)) {
    pool_.stamp(facts.mutable_header(), now.mono_ms);
    *effects.send(spec_.pool()).mutable_pool()->mutable_quota_facts() = std::move(facts);
  }
  if (pool_.due() != kNever) effects.wake_at(std::max(pool_.due(), now.mono_ms));
}

void QuotaMachine::send_due(Instant now, Effects& effects) {
  std::int64_t next = kNever;
  send_facts(now, effects);
  if (!is_root()) {
    v1::ChildClaims claims = child_claims();
    if (says_anything_new(claims, &told_parent_)) parent_.touch();
    if (parent_.must_send(now.mono_ms)) {
      parent_.stamp(claims.mutable_header(), now.mono_ms);
      *effects.send(quota_address(spec_.parent_id())).mutable_quota()->mutable_child_claims() =
          std::move(claims);
    }
    next = std::min(next, parent_.due());
  }
  for (auto& [id, edge] : children_) {
    v1::ParentTerms terms = parent_terms_of(edge);
    if (says_anything_new(terms, &edge.told)) edge.conversation.touch();
    if (edge.conversation.must_send(now.mono_ms)) {
      edge.conversation.stamp(terms.mutable_header(), now.mono_ms);
      *effects.send(quota_address(id)).mutable_quota()->mutable_parent_terms() = std::move(terms);
    }
    next = std::min(next, edge.conversation.due());
  }
  for (auto it = unsettled_.begin(); it != unsettled_.end();) {
    const auto found = claims_.find(*it);
    if (found == claims_.end()) {
      it = unsettled_.erase(it);
      continue;
    }
    ClaimState& claim = found->second;
    send_claim(claim, now, effects);
    if (claim.phase == v1::CLAIM_PHASE_GONE && claim.pool.settled()) {
      version_base_ =
          std::max({version_base_, claim.workload.mine().version, claim.pool.mine().version});
      claims_.erase(found);
      it = unsettled_.erase(it);
    } else if (claim.workload.settled() && claim.pool.settled()) {
      it = unsettled_.erase(it);
    } else {
      next = std::min({next, claim.workload.due(), claim.pool.due()});
      ++it;
    }
  }
  const bool ages = policy_ == scheduling::QueuePolicy::Intelligent ||
                    policy_ == scheduling::QueuePolicy::Balance;
  if (ages && !queue_.empty()) next = std::min(next, next_aging_mono_ms_);
  if (next != kNever) effects.wake_at(std::max(next, now.mono_ms));
}

void QuotaMachine::send_claim(ClaimState& claim, Instant now, Effects& effects) {
  v1::PlaceClaim place = place_claim_of(claim);
  const bool spoken = claim.pool.has_record();
  if ((spoken || place.want() != v1::PLACE_WANT_NOTHING) &&
      says_anything_new(place, &claim.told_pool)) {
    claim.pool.touch();
  }
  if (claim.pool.must_send(now.mono_ms)) {
    claim.pool.stamp(place.mutable_header(), now.mono_ms);
    *effects.send(spec_.pool()).mutable_pool()->mutable_place_claim() = std::move(place);
  }
  if (claim.phase == v1::CLAIM_PHASE_UNSPECIFIED) return;
  v1::ClaimTerms terms = terms_of(claim);
  if (claim.phase != v1::CLAIM_PHASE_GONE && says_anything_new(terms, &claim.told_workload)) {
    claim.workload.touch();
  }
  if (claim.workload.must_send(now.mono_ms)) {
    claim.workload.stamp(terms.mutable_header(), now.mono_ms);
    // To one that is over this is only an echo: it will not answer, and must not be waited for.
    if (claim.phase == v1::CLAIM_PHASE_GONE) terms.mutable_header()->set_wants_echo(false);
    *effects.send(claim.key.workload).mutable_workload()->mutable_claim_terms() = std::move(terms);
  }
}

void QuotaMachine::send_last_word(const v1::ChildClaims& claims, Instant now, Effects& effects) {
  v1::ParentTerms* last =
      effects.send(quota_address(claims.child())).mutable_quota()->mutable_parent_terms();
  last->set_over(true);
  last->set_edge_epoch(claims.edge_epoch());
  Conversation once(context_.epoch);
  (void)once.receive(claims.header());
  once.stamp(last->mutable_header(), now.mono_ms);
  // Higher than anything said on this edge before; nothing will be said on it again.
  last->mutable_header()->mutable_stamp()->set_version(~0ull);
  last->mutable_header()->set_wants_echo(false);
}

void QuotaMachine::echo_gone(const v1::ClaimDemand& demand, Instant now, Effects& effects) {
  // Two who have both forgotten would otherwise go on answering each other.
  if (!demand.header().wants_echo()) return;
  v1::ClaimTerms* terms =
      effects.send(demand.claim().workload()).mutable_workload()->mutable_claim_terms();
  *terms->mutable_claim() = demand.claim();
  terms->set_attempt(demand.attempt());
  Conversation once(context_.epoch, version_base_++);
  (void)once.receive(demand.header());
  once.stamp(terms->mutable_header(), now.mono_ms);
  terms->mutable_header()->set_wants_echo(false);
}

v1::PlaceClaim QuotaMachine::place_claim_of(const ClaimState& claim) const {
  v1::PlaceClaim place;
  *place.mutable_claim() = claim_of(claim.key);
  place.set_attempt(claim.attempt);
  place.set_quota(spec_.quota_id());
  place.set_want(v1::PLACE_WANT_NOTHING);
  if (claim.phase == v1::CLAIM_PHASE_GONE || claim.phase == v1::CLAIM_PHASE_UNSPECIFIED) {
    return place;
  }
  *place.mutable_need() = claim.need;
  place.set_since_wall_ms(claim.since_wall_ms);
  if (claim.stage == Stage::Charged) {
    place.set_want(v1::PLACE_WANT_PLACE);
    place.set_claim_class(v1::CLAIM_CLASS_IN_QUOTA);
    place.set_node_type(claim.charge.node_type);
    return place;
  }
  if (claim.idle_asked || (claim.holds() && claim.held_class == v1::CLAIM_CLASS_IDLE)) {
    place.set_want(v1::PLACE_WANT_PLACE);
    place.set_claim_class(v1::CLAIM_CLASS_IDLE);
    return place;
  }
  if (claim.stage == Stage::Queued) return place;
  place.set_want(v1::PLACE_WANT_PLAN);
  place.set_claim_class(v1::CLAIM_CLASS_IN_QUOTA);
  place.set_node_type(claim.plan_type);
  set(place.mutable_must_free(), claim.must_free);
  if (!claim.takes_victims) return place;
  if (may_take_below(claim)) {
    v1::VictimRule* rule = place.add_rules();
    rule->set_quota(spec_.quota_id());
    rule->set_descendants(true);
    *rule->mutable_products() = spec_.child_filter().products();
    rule->set_priority_at_most(spec_.child_filter().priority_at_most());
    rule->set_reason(v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION);
  }
  if (may_take_same_level(claim)) {
    v1::VictimRule* rule = place.add_rules();
    rule->set_quota(is_root() ? spec_.quota_id() : spec_.parent_id());
    rule->set_descendants(!is_root());
    rule->set_itself(is_root());
    *rule->mutable_products() = spec_.preempted_products();
    rule->set_priority_at_most(claim.need.priority() - 1);
    *rule->mutable_priorities() = spec_.preempted_priorities();
    rule->set_reason(v1::PREEMPT_REASON_SAME_LEVEL_PREEMPTION);
  }
  return place;
}

v1::ClaimTerms QuotaMachine::terms_of(const ClaimState& claim) const {
  v1::ClaimTerms terms;
  *terms.mutable_claim() = claim_of(claim.key);
  terms.set_attempt(claim.attempt);
  if (claim.stage == Stage::Charged) {
    terms.set_admitted(v1::CLAIM_CLASS_IN_QUOTA);
  } else if (claim.idle_asked || claim.held_class == v1::CLAIM_CLASS_IDLE) {
    terms.set_admitted(v1::CLAIM_CLASS_IDLE);
  }
  if (claim.preempted) *terms.mutable_preempt() = claim.preempt;
  if (claim.waiting()) *terms.mutable_wait() = claim.wait_told;
  return terms;
}

v1::ParentTerms QuotaMachine::parent_terms_of(const Edge& edge) const {
  v1::ParentTerms terms;
  terms.set_edge_epoch(edge.epoch);
  set(terms.mutable_guarantee(), edge.guarantee);
  set(terms.mutable_given_total(), edge.given);
  set(terms.mutable_hold_at_most(), level_of(edge));
  set(terms.mutable_returned_seen(), edge.returned_seen);
  terms.set_closing(edge.closing);
  terms.set_reason(v1::PREEMPT_REASON_QUOTA_SCALED);
  terms.set_may_evict(edge.preempt_above_guarantee);
  // What a parent was itself asked for goes on down with the filter it came with.
  if (may_evict_ && !is_root()) {
    terms.set_may_evict(true);
    *terms.mutable_filter() = filter_;
    terms.set_reason(recall_reason_);
    for (const v1::VictimRef& victim : recall_victims_) {
      if (branch_of(victim.quota()) == edge.id) *terms.add_victims() = victim;
    }
  }
  for (const ClaimKey& key : plans_) {
    const ClaimState& claim = claims_.at(key);
    if (!claim.takes_victims || !may_take_below(claim)) continue;
    for (const v1::VictimRef& victim : claim.plan_victims) {
      if (branch_of(victim.quota()) != edge.id) continue;
      v1::VictimRef* listed = terms.add_victims();
      *listed = victim;
      *listed->mutable_for_claim() = claim_of(key);
    }
    terms.set_may_evict(true);
    *terms.mutable_filter() = spec_.child_filter();
    terms.set_reason(v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION);
  }
  // Same-level: a sibling of this child has been promised its victims.
  for (const auto& [id, claimant] : children_) {
    if (id == edge.id) continue;
    for (const v1::Demand& demand : claimant.demand) {
      for (const v1::VictimRef& victim : demand.victims()) {
        if (branch_of(victim.quota()) != edge.id) continue;
        v1::VictimRef* listed = terms.add_victims();
        *listed = victim;
        *listed->mutable_for_claim() = demand.claim();
        terms.set_may_evict(true);
        terms.mutable_filter()->set_priority_at_most(
            std::max(terms.filter().priority_at_most(), demand.priority() - 1));
        terms.set_reason(v1::PREEMPT_REASON_SAME_LEVEL_PREEMPTION);
      }
    }
  }
  return terms;
}

v1::ChildClaims QuotaMachine::child_claims() const {
  v1::ChildClaims claims;
  claims.set_child(spec_.quota_id());
  claims.set_edge_epoch(edge_epoch_);
  set(claims.mutable_given_seen(), given_seen_);
  set(claims.mutable_returned_total(), returned_total_);
  set(claims.mutable_used(), used_in_subtree());
  set(claims.mutable_wanted(), wanted());
  Amounts below;
  for (const auto& [id, edge] : children_) below += edge.guarantee;
  set(claims.mutable_guaranteed_below(), below);
  for (const ClaimKey& key : borrowers_) {
    const ClaimState& claim = claims_.at(key);
    for (const auto& [type, amount] : claim.borrowed) {
      v1::Demand* demand = claims.add_demand();
      *demand->mutable_claim() = claim_of(key);
      demand->set_priority(claim.need.priority());
      demand->set_product(claim.need.product());
      demand->set_node_type(type);
      set(demand->mutable_amount(), amount);
      demand->set_may_take_same_level(true);
      if (plans_.count(key) == 0) continue;
      for (const v1::VictimRef& victim : claim.plan_victims) {
        if (victim.quota() != spec_.quota_id()) *demand->add_victims() = victim;
      }
    }
  }
  claims.set_claims(static_cast<std::uint32_t>(claims_.size()));
  claims.set_children(static_cast<std::uint32_t>(children_.size()));
  claims.add_quotas_below(spec_.quota_id());
  for (const auto& [id, child] : branches_) claims.add_quotas_below(id);
  for (const auto& [id, edge] : children_) {
    if (branches_.count(id) == 0) claims.add_quotas_below(id);
  }
  return claims;
}

v1::QuotaFacts QuotaMachine::quota_facts() const {
  v1::QuotaFacts facts;
  facts.set_quota(spec_.quota_id());
  facts.set_gone(over_);
  facts.set_parent(spec_.parent_id());
  facts.set_idle_closed(spec_.idle_closed());
  set(facts.mutable_guarantee(), guarantee_);
  // Only a quota that keeps its idle capacity to itself has to tell how much that is.
  if (spec_.idle_closed()) set(facts.mutable_used(), used_in_subtree());
  facts.set_min_run_ms(spec_.min_run_ms());
  facts.set_gpu_share(spec_.gpu_share());
  facts.set_resource_type(spec_.resource_type());
  return facts;
}

}  // namespace ebb::actors
