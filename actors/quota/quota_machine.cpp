#include "actors/quota/quota_machine.hpp"

#include <algorithm>

namespace ebb::actors {

QuotaMachine::QuotaMachine(const Context& context, const std::vector<v1::Record>& records)
    : context_(context), parent_(context.epoch), pool_(context.epoch) {
  for (const v1::Record& record : records) {
    if (record.kind() == "QuotaRecord") {
      v1::QuotaRecord saved;
      if (!saved.ParseFromString(record.body())) continue;
      spec_ = saved.spec();
      guarantee_ = amounts_of(spec_.guarantee());
      edge_epoch_ = std::max<std::uint64_t>(1, saved.edge_epoch());
      given_seen_ = amounts_of(saved.given_seen());
      returned_total_ = amounts_of(saved.returned_total());
      holding_ = is_root() ? amounts_of(saved.holding()) : given_seen_ - returned_total_;
      for (const v1::QuotaRecord::Edge& kept : saved.children()) {
        Edge edge;
        edge.id = kept.quota_id();
        edge.name = kept.name();
        edge.epoch = std::max<std::uint64_t>(1, kept.edge_epoch());
        edge.guarantee = amounts_of(kept.guarantee());
        edge.given = amounts_of(kept.given_total());
        edge.returned_seen = amounts_of(kept.returned_seen());
        edge.preempt_above_guarantee = kept.preempt();
        edge.closing = kept.closing();
        edge.conversation = Conversation(context.epoch);
        children_.emplace(edge.id, std::move(edge));
      }
    } else if (record.kind() == "ChargeRecord") {
      v1::ChargeRecord saved;
      if (!saved.ParseFromString(record.body())) continue;
      ClaimState claim;
      claim.key = key_of(saved.claim());
      claim.attempt = saved.attempt();
      claim.stage = Stage::Charged;
      claim.charge = {saved.attempt(), saved.node_type(), amount_of(saved.amount())};
      claim.amount = claim.charge.amount;
      claim.need.set_priority(saved.priority());
      claim.need.set_product(saved.product());
      claim.workload = Conversation(context.epoch);
      claim.pool = Conversation(context.epoch);
      used_[saved.node_type()] += claim.charge.amount;
      claims_.emplace(claim.key, std::move(claim));
    }
  }
  if (auto policy = scheduling::parse_queue_policy(spec_.queue_strategy())) policy_ = *policy;
}

void QuotaMachine::start(Instant now, Effects& effects) {
  pool_.touch();
  if (!is_root()) parent_.touch();
  for (auto& [id, edge] : children_) edge.conversation.touch();
  settle(now, effects);
}

void QuotaMachine::handle(const v1::Envelope& envelope, Instant now, Effects& effects) {
  if (ended_) return;
  const v1::QuotaInbox& inbox = envelope.quota();
  switch (inbox.message_case()) {
    case v1::QuotaInbox::kParentTerms:
      on(inbox.parent_terms());
      break;
    case v1::QuotaInbox::kChildClaims:
      on(inbox.child_claims(), now, effects);
      break;
    case v1::QuotaInbox::kClaimDemand:
      on(inbox.claim_demand(), envelope.from(), now, effects);
      break;
    case v1::QuotaInbox::kClaimAnswer:
      on(inbox.claim_answer(), now, effects);
      break;
    case v1::QuotaInbox::kPoolCapacity:
      on(inbox.pool_capacity(), now, effects);
      break;
    case v1::QuotaInbox::kCommand:
      command(inbox.command(), envelope, now, effects);
      break;
    case v1::QuotaInbox::MESSAGE_NOT_SET:
      effects.alarm("quota got an empty message from=" + envelope.from());
      return;
  }
  walk_due_ = true;
}

void QuotaMachine::remind(Instant) {
  pool_.repeat();
  for (auto& [key, claim] : claims_) {
    claim.pool.repeat();
    changed(claim);
  }
}

void QuotaMachine::wake(Instant now, Effects& effects) { settle(now, effects); }

void QuotaMachine::on(const v1::ParentTerms& terms) {
  if (!parent_.receive(terms.header())) return;
  if (terms.edge_epoch() < edge_epoch_) return;  // R10
  if (terms.over()) {
    over_ = true;
    return;
  }
  edge_epoch_ = terms.edge_epoch();
  const Amounts guarantee = amounts_of(terms.guarantee());
  for (const auto& [type, given] : amounts_of(terms.given_total())) {
    const Amount raised = max(given_seen_[type], given);  // R1
    if (raised == given_seen_[type]) continue;
    given_seen_[type] = raised;
    dirty_record_ = true;
  }
  guarantee_ = guarantee;
  set(spec_.mutable_guarantee(), guarantee_);
  holding_ = given_seen_ - returned_total_;
  hold_at_most_ = amounts_of(terms.hold_at_most());
  may_evict_ = terms.may_evict();
  closing_ = terms.closing();
  filter_ = terms.filter();
  recall_reason_ = terms.reason();
  recall_victims_.assign(terms.victims().begin(), terms.victims().end());
}

void QuotaMachine::end(Effects& effects) {
  for (const auto& [key, claim] : claims_) {
    if (claim.stage == Stage::Charged) {
      effects.erase(context_.address + "#" + text_of(key), "ChargeRecord");
    }
  }
  effects.erase(context_.address, "QuotaRecord");
  effects.decide("delete quota=" + spec_.quota_id());
  effects.ended = true;
  ended_ = true;
}

void QuotaMachine::on(const v1::ChildClaims& claims, Instant now, Effects& effects) {
  const auto it = children_.find(claims.child());
  if (it == children_.end()) return send_last_word(claims, now, effects);
  Edge& edge = it->second;
  if (!edge.conversation.receive(claims.header())) return;
  if (claims.edge_epoch() != edge.epoch) return;
  for (const auto& [type, returned] : amounts_of(claims.returned_total())) {
    const Amount before = edge.returned_seen[type];
    const Amount after = max(before, returned);
    if (after == before) continue;
    edge.returned_seen[type] = after;
    dirty_record_ = true;  // R4: what spends these units is saved together with this
    edge.due[type] = scheduling::settle_due(edge.due[type], after - before);
  }
  edge.used = amounts_of(claims.used());
  edge.wanted = amounts_of(claims.wanted());
  edge.guaranteed_below = amounts_of(claims.guaranteed_below());
  edge.demand.assign(claims.demand().begin(), claims.demand().end());
  book_same_level();
  edge.claims = claims.claims();
  edge.children = claims.children();
  for (const std::string& id : claims.quotas_below()) branches_[id] = edge.id;
  if (!edge.closing || edge.claims != 0 || edge.children != 0) return;
  for (const auto& [type, booked] : edge.booked()) {
    if (!booked.is_zero()) return;
  }
  effects.decide("end edge quota=" + spec_.quota_id() + " child=" + edge.id);
  v1::Reply reply;
  reply.set_id(edge.id);
  if (!edge.delete_request.from().empty()) effects.reply(edge.delete_request, std::move(reply));
  children_.erase(it);
  dirty_record_ = true;
  send_last_word(claims, now, effects);
}

void QuotaMachine::on(const v1::ClaimDemand& demand, const std::string& from, Instant now,
                      Effects& effects) {
  if (demand.claim().workload() != from) {
    effects.alarm("claim demand refused from=" + from + " claim=" + demand.claim().workload());
    return;
  }
  const ClaimKey key = key_of(demand.claim());
  auto it = claims_.find(key);
  if (it == claims_.end()) {
    // Over and already forgotten here: echo, so that the workload can forget too.
    if (demand.phase() == v1::CLAIM_PHASE_GONE) return echo_gone(demand, now, effects);
    ClaimState fresh;
    fresh.key = key;
    fresh.workload = Conversation(context_.epoch, version_base_);
    fresh.pool = Conversation(context_.epoch, version_base_);
    it = claims_.emplace(key, std::move(fresh)).first;
  }
  ClaimState& claim = it->second;
  changed(claim);
  if (!claim.workload.receive(demand.header())) return;
  if (demand.attempt() < claim.attempt) return;
  const bool gone = demand.phase() == v1::CLAIM_PHASE_GONE;
  if (demand.attempt() > claim.attempt || gone) {
    // The former attempt holds nothing any more: its charge ends (R6: the nodes' receipts are
    // behind this).
    drop_plan(claim);
    uncharge(claim, effects);
    set_stage(claim, Stage::Queued);
    claim.idle_asked = false;
    claim.preempted = false;
    claim.preempt.Clear();
    claim.answer.Clear();
    claim.unplaced = false;
  }
  claim.attempt = demand.attempt();
  claim.phase = demand.phase();
  claim.need = demand.need();
  if (claim.stage != Stage::Charged) claim.amount = total_of(demand.need());
  claim.held_class = demand.held_class();
  claim.held_type = demand.node_type();
  claim.since_wall_ms = demand.since_wall_ms();
  claim.started_wall_ms = demand.started_wall_ms();
  claim.workspace = demand.workspace();
  claim.user = demand.user();
  if (claim.stage == Stage::Charged && claim.phase == v1::CLAIM_PHASE_LEAVING &&
      !claim.counted_leaving) {
    claim.counted_leaving = true;
    leaving_[claim.charge.node_type] += claim.charge.amount;
  }
  if (claim.holds()) {
    plans_.erase(key);
    claim.plan_victims.clear();
  }
  if (gone) {
    unqueue(claim);
  } else {
    requeue(claim, now.wall_ms);
  }
}

void QuotaMachine::on(const v1::ClaimAnswer& answer, Instant now, Effects& effects) {
  const auto it = claims_.find(key_of(answer.claim()));
  if (it == claims_.end()) return;
  ClaimState& claim = it->second;
  changed(claim);
  if (!claim.pool.receive(answer.header())) return;
  // An answer to an older question decides nothing: the pool will answer the latest one.
  if (answer.attempt() != claim.attempt || !claim.pool.settled()) return;
  claim.answer = answer;
  claim.plan_refused = false;
  queue_planning_.erase(claim.key);
  switch (answer.state()) {
    case v1::ANSWER_STATE_UNPLACED:
      if (claim.stage == Stage::Charged && claim.waiting() &&
          answer.claim_class() == v1::CLAIM_CLASS_IN_QUOTA) {
        // Nothing was handed out, so the charge may end; the pool goes on looking without it.
        const std::string type = claim.charge.node_type;
        uncharge(claim, effects);
        ask_for_place(claim, type);
        claim.answer = answer;
        claim.unplaced = true;
        requeue(claim, now.wall_ms);
      } else if (claim.stage == Stage::Planned) {
        const std::string type = claim.plan_type;
        drop_plan(claim);
        set_stage(claim, Stage::Planning);
        claim.plan_type = type;
      }
      break;
    case v1::ANSWER_STATE_PLANNED:
      if (claim.stage == Stage::Planning || claim.stage == Stage::Planned) {
        claim.unplaced = false;
        take_plan(claim, answer, effects);
      }
      break;
    case v1::ANSWER_STATE_PLACED:
      claim.unplaced = false;
      // It was handed idle slots before the pool heard of the plan.
      if (claim.stage == Stage::Planning || claim.stage == Stage::Planned) {
        drop_plan(claim);
        set_stage(claim, Stage::Queued);
      }
      break;
    default:
      break;
  }
}

void QuotaMachine::take_plan(ClaimState& claim, const v1::ClaimAnswer& answer, Effects& effects) {
  const std::string type = answer.node_type().empty() ? claim.plan_type : answer.node_type();
  const bool took = claim.takes_victims;
  const Amount must_free = claim.must_free;
  drop_plan(claim);
  const Amount available_before = positive(available(type));
  // The question stays as it was: another one would be planned anew by the pool.
  claim.takes_victims = took;
  claim.must_free = must_free;
  set_stage(claim, Stage::Planned);
  claim.plan_type = type;
  claim.plan_victims.assign(answer.victims().begin(), answer.victims().end());
  const Amount lack = positive(promised(type) + claim.amount -
                               positive(scheduling::free_amount(account(type))) - due_sum(type));
  planned_.push_back(claim.key);
  plans_.insert(claim.key);
  if (took && may_take_below(claim)) {
    claim.plan_dues = book_dues(type, lack, claim.plan_victims);
    const Amount coming = positive(scheduling::free_amount(account(type))) + due_sum(type);
    if (!may_take_same_level(claim) && !promised(type).fits(coming)) {
      // The books moved while the pool was planning: what it frees would not cover the claim. Ask
      // anew.
      drop_plan(claim);
      set_stage(claim, Stage::Queued);
      claim.plan_refused = true;
      claim.answer.Clear();
      return;
    }
  }
  Amount own_lack = positive(claim.amount - available_before);
  for (const v1::VictimRef& victim : claim.plan_victims) {
    const ClaimKey key = key_of(victim.claim());
    if (victim.quota() != spec_.quota_id()) {
      continue;
    }
    const auto own = claims_.find(key);
    if (own == claims_.end() || own->second.attempt != victim.attempt()) continue;
    tell_to_go(own->second, v1::PREEMPT_REASON_SAME_LEVEL_PREEMPTION, claim_of(claim.key),
               spec_.quota_id(), "lower priority in the same quota", effects);
    own_lack = positive(own_lack - amount_of(victim.amount()));
  }
  // What siblings' victims bring is held beyond the guarantee, for as long as the claim runs.
  Amount from_siblings;
  for (const v1::VictimRef& victim : claim.plan_victims) {
    const bool below_or_own =
        victim.quota() == spec_.quota_id() || !branch_of(victim.quota()).empty();
    if (!below_or_own) from_siblings += amount_of(victim.amount());
  }
  if (from_siblings.any_positive()) {
    claim.borrowed[type] = min(own_lack, from_siblings);
    borrowers_.insert(claim.key);
  }
  if (!claim.plan_victims.empty()) {
    effects.decide("plan claim=" + text_of(claim.key) + " quota=" + spec_.quota_id() +
                   " victims=" + std::to_string(claim.plan_victims.size()));
  }
}

void QuotaMachine::on(const v1::PoolCapacity& capacity, Instant, Effects&) {
  if (!pool_.receive(capacity.header())) return;
  node_type_facts_.assign(capacity.node_types().begin(), capacity.node_types().end());
  if (!is_root() || !capacity.known()) return;
  // A root is what it was made of, as far as that is alive.
  holding_ = amounts_of(capacity.live());
  frozen_ = amounts_of(capacity.frozen());
  for (auto& [type, amount] : holding_) amount = min(amount, guarantee_[type]);
  dirty_record_ = true;
}

void QuotaMachine::settle(Instant now, Effects& effects) {
  if (ended_) return;
  if (over_) {
    send_facts(now, effects);
    if (pool_.settled()) end(effects);
    return;
  }
  return_to_parent(effects);
  charge_planned(now, effects);
  admit(now, effects);
  recall_from_children();
  give_to_children();
  if (dirty_record_) save_record(effects);
  send_due(now, effects);
}

void QuotaMachine::save_record(Effects& effects) {
  dirty_record_ = false;
  v1::QuotaRecord record;
  *record.mutable_spec() = spec_;
  record.set_edge_epoch(edge_epoch_);
  set(record.mutable_given_seen(), given_seen_);
  set(record.mutable_returned_total(), returned_total_);
  if (is_root()) set(record.mutable_holding(), holding_);
  for (const auto& [id, edge] : children_) {
    v1::QuotaRecord::Edge* kept = record.add_children();
    kept->set_quota_id(id);
    kept->set_name(edge.name);
    kept->set_edge_epoch(edge.epoch);
    set(kept->mutable_guarantee(), edge.guarantee);
    set(kept->mutable_given_total(), edge.given);
    set(kept->mutable_returned_seen(), edge.returned_seen);
    kept->set_preempt(edge.preempt_above_guarantee);
    kept->set_closing(edge.closing);
  }
  effects.save(context_.address, "QuotaRecord", record);
}

}  // namespace ebb::actors
