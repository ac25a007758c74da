#include "actors/pool/pool_machine.hpp"

#include <algorithm>

namespace ebb::actors {
namespace {
constexpr std::int64_t kLearningMs = 300;  // after a start: claims in use make themselves known
constexpr std::int64_t kLearningAtMostMs =
    3'000;  // nodes that stay silent are not waited for longer
}  // namespace

PoolMachine::PoolMachine(const Context& context, const std::vector<v1::Record>& records)
    : context_(context), tenant_(context.epoch) {
  for (const v1::Record& record : records) {
    v1::PoolRecord saved;
    if (record.kind() == "PoolRecord" && saved.ParseFromString(record.body())) {
      root_quota_ = saved.root_quota();
      resource_type_ = saved.resource_type();
    }
  }
}

void PoolMachine::start(Instant now, Effects& effects) {
  started_mono_ms_ = last_check_mono_ms_ = now.mono_ms;
  next_check_mono_ms_ = now.mono_ms + kLearningMs;
  settle(now, effects);
}

void PoolMachine::handle(const v1::Envelope& envelope, Instant now, Effects& effects) {
  now_mono_ms_ = now.mono_ms;
  const v1::PoolInbox& inbox = envelope.pool();
  switch (inbox.message_case()) {
    case v1::PoolInbox::kPlaceClaim:
      on(inbox.place_claim(), now, effects);
      break;
    case v1::PoolInbox::kQuotaFacts:
      on(inbox.quota_facts(), now, effects);
      break;
    case v1::PoolInbox::kClaimUse:
      on(inbox.claim_use(), envelope.from(), now, effects);
      break;
    case v1::PoolInbox::kNodeState:
      on(inbox.node_state(), envelope.from(), now);
      break;
    case v1::PoolInbox::kPoolTerms:
      on(inbox.pool_terms(), envelope, now, effects);
      break;
    case v1::PoolInbox::kCommand:
      command(inbox.command(), envelope, now, effects);
      return;
    case v1::PoolInbox::MESSAGE_NOT_SET:
      effects.alarm("pool got an empty message from=" + envelope.from());
      return;
  }
}

void PoolMachine::wake(Instant now, Effects& effects) {
  now_mono_ms_ = now.mono_ms;
  settle(now, effects);
}

void PoolMachine::settle(Instant now, Effects& effects) {
  if (!known_) {
    const std::int64_t age = now.mono_ms - started_mono_ms_;
    known_ = (age >= kLearningMs && all_nodes_heard()) || age >= kLearningAtMostMs;
    if (known_) {
      gained();
      capacity_changed_ = true;
    }
  }
  check_nodes(now, effects);
  if (known_) {
    place_waiting(now, effects);
    hand_out(now, effects);
  }
  send_due(now, effects);
}

PoolMachine::ClaimEntry& PoolMachine::entry_of(const ClaimKey& key) {
  auto it = claims_.find(key);
  if (it == claims_.end()) {
    ClaimEntry entry;
    entry.key = key;
    entry.quota = Conversation(context_.epoch, version_base_);
    entry.workload = Conversation(context_.epoch, version_base_);
    it = claims_.emplace(key, std::move(entry)).first;
  }
  changed(it->second);
  return it->second;
}

void PoolMachine::on(const v1::PlaceClaim& place, Instant now, Effects& effects) {
  const ClaimKey key = key_of(place.claim());
  if (place.want() == v1::PLACE_WANT_NOTHING && claims_.count(key) == 0) {
    // Forgotten already: echo, so that the quota can forget too.
    if (!place.header().wants_echo()) return;
    Conversation once(context_.epoch, version_base_++);
    (void)once.receive(place.header());
    v1::ClaimAnswer* answer =
        effects.send("quota/" + place.quota()).mutable_quota()->mutable_claim_answer();
    *answer->mutable_claim() = place.claim();
    answer->set_attempt(place.attempt());
    once.stamp(answer->mutable_header(), now.mono_ms);
    answer->mutable_header()->set_wants_echo(false);
    return;
  }
  ClaimEntry& claim = entry_of(key);
  if (!claim.quota.receive(place.header())) return;
  // An answer belongs to its question: one that reads like the last is still a new one, or the
  // quota, which passes over what was said before its question, would wait for ever.
  claim.told_quota.clear();
  if (place.attempt() < claim.attempt) return;
  if (place.attempt() > claim.attempt) {
    // The former attempt holds nothing any more; what a node's table still shows stays until the
    // node says otherwise.
    drop_reservation(claim);
    stop_waiting(key);
    end_reservations(key, place.attempt());
    claim.attempt = place.attempt();
    claim.state = v1::ANSWER_STATE_UNSPECIFIED;
    claim.handed = false;
    claim.places.clear();
    claim.told_to_go = false;
    claim.preempt.Clear();
    claim.dead_nodes.clear();
    claim.wait.Clear();
  }
  const bool same_question =
      claim.asked && claim.request.want() == place.want() &&
      claim.request.attempt() == place.attempt() &&
      claim.request.must_free().SerializeAsString() == place.must_free().SerializeAsString() &&
      claim.request.node_type() == place.node_type() &&
      claim.request.claim_class() == place.claim_class() &&
      claim.request.rules_size() == place.rules_size();
  claim.asked = true;
  claim.request = place;
  switch (place.want()) {
    case v1::PLACE_WANT_PLACE:
      claim.claim_class = place.claim_class();
      if (claim.handed || claim.in_use()) {
        claim.state = v1::ANSWER_STATE_PLACED;
        refresh_facts({key, claim.attempt}, now);
        break;
      }
      if (claim.state == v1::ANSWER_STATE_PLANNED && claim.node_type == place.node_type()) {
        claim.state =
            v1::ANSWER_STATE_PLACED;  // the charge has come: hand out as soon as it is free
        refresh_facts({key, claim.attempt}, now);
        break;
      }
      if (claim.state == v1::ANSWER_STATE_PLACED && same_question) break;
      drop_reservation(claim);
      wait_for_place(claim);
      break;
    case v1::PLACE_WANT_PLAN:
      if (claim.handed || claim.in_use()) {
        claim.state = v1::ANSWER_STATE_PLACED;
        break;
      }
      if (claim.state == v1::ANSWER_STATE_PLANNED && same_question) break;
      claim.claim_class = place.claim_class();
      drop_reservation(claim);
      wait_for_place(claim);
      break;
    default:
      stop_waiting(key);
      if (!claim.handed || claim.use.phase() == v1::CLAIM_PHASE_GONE) {
        drop_reservation(claim);
        end_reservations(key, claim.attempt + 1);
        claim.state = v1::ANSWER_STATE_UNSPECIFIED;
      }
      break;
  }
}

void PoolMachine::on(const v1::QuotaFacts& facts, Instant now, Effects& effects) {
  auto it = quotas_.find(facts.quota());
  if (facts.gone()) {
    if (it != quotas_.end()) quotas_.erase(it);
    gained();
    Conversation last(context_.epoch);
    (void)last.receive(facts.header());
    v1::PoolCapacity* echo =
        effects.send("quota/" + facts.quota()).mutable_quota()->mutable_pool_capacity();
    last.stamp(echo->mutable_header(), now.mono_ms);
    // Higher than anything said to it before; nothing will be said to it again.
    echo->mutable_header()->mutable_stamp()->set_version(~0ull);
    echo->mutable_header()->set_wants_echo(false);
    return;
  }
  if (it == quotas_.end()) {
    QuotaEntry entry;
    entry.number = next_quota_number_++;
    entry.conversation = Conversation(context_.epoch);
    entry.conversation.touch();
    it = quotas_.emplace(facts.quota(), std::move(entry)).first;
  }
  if (!it->second.conversation.receive(facts.header())) return;
  it->second.facts = facts;
  gained();
  for (const auto& [key, claim] : claims_) {
    const std::string& quota = claim.asked ? claim.request.quota() : claim.use.quota();
    if (quota == facts.quota()) refresh_facts({key, claim.attempt}, now);
  }
}

void PoolMachine::on(const v1::ClaimUse& use, const std::string& from, Instant now,
                     Effects& effects) {
  if (use.claim().workload() != from) {
    effects.alarm("claim use refused from=" + from + " claim=" + use.claim().workload());
    return;
  }
  const ClaimKey key = key_of(use.claim());
  if (use.phase() == v1::CLAIM_PHASE_GONE && claims_.count(key) == 0) {
    if (!use.header().wants_echo()) return;
    Conversation once(context_.epoch, version_base_++);
    (void)once.receive(use.header());
    v1::ClaimPlacement* placement =
        effects.send(from).mutable_workload()->mutable_claim_placement();
    *placement->mutable_claim() = use.claim();
    placement->set_attempt(use.attempt());
    once.stamp(placement->mutable_header(), now.mono_ms);
    placement->mutable_header()->set_wants_echo(false);
    return;
  }
  ClaimEntry& claim = entry_of(key);
  if (!claim.workload.receive(use.header())) return;
  if (use.attempt() < claim.attempt) return;
  const bool advanced = use.attempt() > claim.attempt;
  claim.use = use;
  if (advanced) {
    // Heard of the next attempt from the workload first: its former places are free, the quota's
    // question follows.
    drop_reservation(claim);
    stop_waiting(key);
    end_reservations(key, use.attempt());
    claim.attempt = use.attempt();
    claim.asked = false;
    claim.state = v1::ANSWER_STATE_UNSPECIFIED;
    claim.handed = false;
    claim.places.clear();
    claim.told_to_go = false;
    claim.preempt.Clear();
    claim.dead_nodes.clear();
  }
  if (use.phase() == v1::CLAIM_PHASE_GONE) {
    drop_reservation(claim);
    end_reservations(key, use.attempt() + 1);
    claim.handed = false;
    return;
  }
  if (!claim.in_use()) return;
  stop_waiting(key);
  reserved_.erase(key);
  // What is in use was handed out, by this pool or by what it was before a restart.
  const HolderKey holder_key{key, claim.attempt};
  claim.handed = true;
  claim.state = v1::ANSWER_STATE_PLACED;
  if (claim.places.empty()) {
    claim.claim_class = use.claim_class();
    for (const v1::PodPlace& place : use.places()) claim.places.push_back(place_from(place));
    Holder& holder = holder_of(holder_key, facts_of(claim, now));
    for (const v1::PodPlace& place : use.places()) {
      const auto pod = holder.pods.find(place.pod());
      if (pod != holder.pods.end() && pod->second.on_node) continue;
      const scheduling::Place known = place_from(place);
      if (known.node != scheduling::kNone) hold_pod(holder_key, holder, known, true, false);
    }
    if (!use.places().empty()) {
      const auto node = nodes_.find(use.places(0).node());
      if (node != nodes_.end()) claim.node_type = node->second.facts.node_type();
    }
  }
  refresh_facts(holder_key, now);
}

void PoolMachine::on(const v1::NodeState& state, const std::string& from, Instant now) {
  if (from != "node/" + state.facts().node()) return;
  NodeEntry& node = nodes_[state.facts().node()];
  if (!node.heard && !node.conversation.has_record()) {
    node.conversation = Conversation(context_.epoch);
    node.conversation.touch();
  }
  nodes_unsettled_.insert(state.facts().node());
  const bool newer = node.conversation.receive(state.header());
  node.heard_mono_ms = now.mono_ms;
  node.beat = state.beat();
  node.owes_answer = true;
  const bool first = !node.heard;
  node.heard = true;
  if (node.suspect || node.lost || node.fenced) {
    // The operator's word was for the silence that is over now.
    node.suspect = node.lost = node.fenced = false;
    capacity_changed_ = true;
    update_usable(node);
    tell_claims_on(node);
    gained();
  }
  if (newer || first) take_table(node, state);
}

void PoolMachine::on(const v1::PoolTerms& terms, const v1::Envelope& envelope, Instant now,
                     Effects& effects) {
  const bool newer = tenant_.receive(terms.header());
  if (newer) {
    terms_known_ = true;
    root_quota_ = terms.root_quota();
    resource_type_ = terms.resource_type();
    for (auto& [name, node] : nodes_) node.member = false;
    for (const v1::PoolTerms::Node& named : terms.nodes()) {
      NodeEntry& node = nodes_[named.node()];
      if (!node.heard && !node.conversation.has_record()) {
        node.conversation = Conversation(context_.epoch);
        node.conversation.touch();
        node.heard_mono_ms = now.mono_ms;
      }
      node.member = true;
      node.cordoned = named.cordoned();
      node.drain = named.drain();
      node.force = named.force();
      const std::int64_t silent_ms = now.mono_ms - node.heard_mono_ms;
      node.fenced =
          named.fenced() &&
          (!node.heard || silent_ms >= scheduling::suspect_after_ms(context_.tuning.beat_ms));
      if (node.id == scheduling::kNone && named.total().gpu_milli() > 0) {
        add_to_fleet(node, named.node(), named.node_type(), amount_of(named.total()));
      }
    }
    for (auto& [name, node] : nodes_) update_usable(node);
    capacity_changed_ = true;
    gained();
  }
  if (newer && terms.over()) {
    effects.erase(context_.address, "PoolRecord");
    effects.ended = true;
  }
  if (!tenant_.must_send(now.mono_ms)) return;
  v1::PoolEcho* echo = effects.send(envelope.from()).mutable_tenant()->mutable_pool_echo();
  echo->set_pool(context_.address);
  tenant_.stamp(echo->mutable_header(), now.mono_ms);
  echo->mutable_header()->set_wants_echo(false);
}

void PoolMachine::command(const v1::PoolCommand& command, const v1::Envelope& envelope, Instant now,
                          Effects& effects) {
  if (command.command_case() != v1::PoolCommand::kDescribe) {
    return effects.refuse(envelope, {"InvalidParameter", "the command is empty", 400});
  }
  v1::Reply reply;
  view(now).SerializeToString(reply.mutable_body());
  effects.reply(envelope, std::move(reply));
}

void PoolMachine::maybe_forget(const ClaimKey& key) {
  const auto it = claims_.find(key);
  if (it == claims_.end()) return;
  const ClaimEntry& claim = it->second;
  const bool unwanted = claim.asked && claim.request.want() == v1::PLACE_WANT_NOTHING;
  const bool over = !claim.handed || claim.use.phase() == v1::CLAIM_PHASE_GONE;
  const bool workload_done = !claim.workload.heard() || claim.use.phase() == v1::CLAIM_PHASE_GONE;
  if (unwanted && over && workload_done && !claim.quota.must_send(0) &&
      !claim.workload.must_send(0)) {
    version_base_ =
        std::max({version_base_, claim.quota.mine().version, claim.workload.mine().version});
    claims_.erase(it);
    unsettled_.erase(key);
  }
}

}  // namespace ebb::actors
