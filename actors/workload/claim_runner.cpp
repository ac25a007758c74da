#include "actors/workload/claim_runner.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace ebb::actors {
namespace {
constexpr std::int64_t kRefusedHoldMs = 1'000;
constexpr std::int64_t kRefusedHoldMaxMs = 60'000;

bool is_over(const v1::PodRecord& pod) {
  return pod.report().state() == v1::POD_STATE_GONE ||
         pod.report().state() == v1::POD_STATE_REFUSED;
}
}  // namespace

v1::Need need_of(const v1::WorkloadSpec& spec) {
  v1::Need need;
  for (const v1::RoleSpec& role : spec.roles()) {
    v1::PodShape* shape = need.add_shapes();
    shape->set_role(role.role());
    shape->set_pods(role.pods());
    *shape->mutable_each() = role.each();
  }
  *need.mutable_node_types() = spec.node_types();
  need.set_product(spec.product());
  need.set_priority(spec.priority());
  need.set_idle(spec.idle());
  need.set_grace_period_ms(spec.grace_period_ms());
  need.set_run_at_most_ms(spec.run_at_most_ms());
  return need;
}

std::int64_t stop_after_of(const v1::WorkloadSpec& spec, const Tuning& tuning) {
  return spec.product() == v1::PRODUCT_JOB && spec.fault_tolerance() ? tuning.stop_after_ms : 0;
}

ClaimRunner::ClaimRunner(const Context& context, std::uint32_t index)
    : context_(context), quota_(context.epoch), pool_(context.epoch) {
  record_.set_index(index);
  record_.set_phase(v1::CLAIM_PHASE_GONE);
}

ClaimRunner::ClaimRunner(const Context& context, const v1::ClaimRecord& record)
    : context_(context), record_(record), quota_(context.epoch), pool_(context.epoch) {
  // Every neighbour hears from the new epoch: records are repeated, theirs come back.
  for (const v1::PodRecord& pod : record_.pods()) talk_with(pod.place().node());
}

void ClaimRunner::want(Instant now, std::int64_t hold_ms) {
  EBB_ASSERT(record_.phase() == v1::CLAIM_PHASE_GONE);
  stirred_ = true;
  record_.set_wanted(true);
  record_.set_since_wall_ms(now.wall_ms);
  next_attempt(now, hold_ms);
}

void ClaimRunner::leave(Instant now, std::int64_t hold_ms) {
  stirred_ = true;
  hold_ms_ = hold_ms;
  begin_leaving(now);
}

void ClaimRunner::finish(Instant now) {
  stirred_ = true;
  record_.set_wanted(false);
  dirty_ = true;
  begin_leaving(now);
}

void ClaimRunner::signal(int signo) {
  stirred_ = true;
  signal_ = signo;
  ++signal_serial_;
}

bool ClaimRunner::settled() const {
  // A conversation that has not begun, as after a rebuild, settles nothing.
  if (!over() || !told_over_) return false;
  if (!quota_.settled() || !pool_.settled()) return false;
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node.second.conversation.settled() && node.second.conversation.due() == kNever;
  });
}

bool ClaimRunner::is_present(const v1::Claim& claim, std::uint32_t attempt) const {
  return claim.index() == record_.index() && attempt == record_.attempt();
}

void ClaimRunner::on(const v1::ClaimTerms& terms, Instant now) {
  stirred_ = true;
  if (!quota_.receive(terms.header())) return;
  if (!is_present(terms.claim(), terms.attempt())) return;
  if (terms.has_wait()) wait_ = terms.wait();
  const bool newly_never = terms.has_never() && never_.code() != terms.never().code();
  never_ = terms.never();
  if (newly_never && record_.phase() == v1::CLAIM_PHASE_WAITING) {
    happen(Happening::NeverFits).never = never_;
  }
  if (terms.has_preempt()) told_to_go(terms.preempt(), now);
}

void ClaimRunner::on(const v1::ClaimPlacement& placement, Instant now) {
  stirred_ = true;
  if (!pool_.receive(placement.header())) return;
  if (!is_present(placement.claim(), placement.attempt())) return;
  hear_of_nodes(placement, now);
  if (!is_present(placement.claim(), placement.attempt())) return;
  if (placement.has_preempt()) return told_to_go(placement.preempt(), now);
  if (placement.places().empty()) return;
  switch (record_.phase()) {
    case v1::CLAIM_PHASE_WAITING:
      record_.set_phase(v1::CLAIM_PHASE_BINDING);
      record_.set_claim_class(placement.claim_class());
      record_.set_node_type(placement.node_type());
      record_.set_foreign(placement.foreign());
      record_.set_committed(false);
      record_.set_stop_after_ms(stop_after_ms_);
      record_.clear_pods();
      for (const v1::PodPlace& place : placement.places()) {
        v1::PodRecord* pod = record_.add_pods();
        pod->set_pod(place.pod());
        *pod->mutable_place() = place;
        pod->set_want(v1::POD_WANT_BOUND);
        talk_with(place.node());
      }
      happen(Happening::Placed);
      dirty_ = true;
      break;
    case v1::CLAIM_PHASE_BINDING:
    case v1::CLAIM_PHASE_RUNNING:
      if (placement.claim_class() != record_.claim_class()) {
        // Covered by its quota now: guaranteed where it lies.
        record_.set_claim_class(placement.claim_class());
        record_.set_foreign(placement.foreign());
        dirty_ = true;
        if (placement.claim_class() == v1::CLAIM_CLASS_IN_QUOTA) happen(Happening::Upgraded);
      }
      break;
    default:
      break;  // on its way out
  }
}

void ClaimRunner::hear_of_nodes(const v1::ClaimPlacement& placement, Instant now) {
  std::string dead;
  for (const std::string& node : placement.dead_nodes()) {
    for (v1::PodRecord& pod : *record_.mutable_pods()) {
      if (pod.place().node() != node || is_over(pod)) continue;
      pod.mutable_report()->set_pod(pod.pod());
      pod.mutable_report()->set_state(v1::POD_STATE_GONE);
      pod.mutable_report()->set_exit_code(-1);
      pod.mutable_report()->set_evicted(true);
      pod.mutable_report()->set_error("node lost");
      pod.mutable_report()->set_ended_wall_ms(now.wall_ms);
      dead = node;
      dirty_ = true;
    }
  }
  if (!dead.empty()) {
    lose_attempt("node " + dead + " is lost and what ran there is over", now);
    check_gone(now);
  }
  std::set<std::string> silent(placement.silent_nodes().begin(), placement.silent_nodes().end());
  if (silent == silent_nodes_) return;
  silent_nodes_ = std::move(silent);
  if (record_.phase() != v1::CLAIM_PHASE_BINDING && record_.phase() != v1::CLAIM_PHASE_RUNNING) {
    return;
  }
  if (silent_nodes_.empty()) {
    happen(Happening::NodeHeard);
  } else {
    happen(Happening::NodeSilent).error = *silent_nodes_.begin();
  }
}

void ClaimRunner::lose_attempt(const std::string& sentence, Instant now) {
  v1::Preempt lost;
  lost.set_reason(v1::PREEMPT_REASON_NODE_LOST);
  lost.set_sentence(sentence);
  told_to_go(lost, now);
}

void ClaimRunner::told_to_go(const v1::Preempt& preempt, Instant now) {
  if (record_.phase() == v1::CLAIM_PHASE_LEAVING || record_.phase() == v1::CLAIM_PHASE_GONE) return;
  *record_.mutable_leaving_for() = preempt;
  ClaimHappening& leaving = happen(Happening::Leaving);
  leaving.preempt = preempt;
  leaving.preempted = true;
  begin_leaving(now);
}

void ClaimRunner::begin_leaving(Instant now) {
  switch (record_.phase()) {
    case v1::CLAIM_PHASE_GONE:
      hold_until_mono_ms_ = 0;
      return;
    case v1::CLAIM_PHASE_LEAVING:
      return;
    default:
      break;
  }
  record_.set_phase(v1::CLAIM_PHASE_LEAVING);
  for (v1::PodRecord& pod : *record_.mutable_pods()) pod.set_want(v1::POD_WANT_GONE);
  dirty_ = true;
  check_gone(now);
}

v1::PodRecord* ClaimRunner::pod(std::uint32_t number) {
  for (v1::PodRecord& pod : *record_.mutable_pods()) {
    if (pod.pod() == number) return &pod;
  }
  return nullptr;
}

void ClaimRunner::on(const v1::PodReports& reports, const std::string& from, Instant now) {
  if (from != "node/" + reports.node()) return;
  stirred_ = true;
  NodeTalk& talk = talk_with(reports.node());
  if (!talk.conversation.receive(reports.header())) return;
  if (reports.attempt() != record_.attempt()) return;
  std::string cut_off;  // the node that stopped it by its own dead-man
  for (const v1::PodReport& report : reports.pods()) {
    v1::PodRecord* known = pod(report.pod());
    if (known == nullptr || known->place().node() != reports.node()) continue;
    const v1::PodState before = known->report().state();
    if (is_over(*known)) continue;
    *known->mutable_report() = report;
    if (report.checkpoint_wall_ms() > record_.checkpoint_wall_ms()) {
      record_.set_checkpoint_wall_ms(report.checkpoint_wall_ms());
    }
    if (before == report.state()) continue;
    if (report.state() == v1::POD_STATE_GONE || report.state() == v1::POD_STATE_RUNNING)
      dirty_ = true;
    if (report.state() == v1::POD_STATE_REFUSED) refused_by_.insert(reports.node());
    const bool unasked = report.state() == v1::POD_STATE_GONE && known->want() == v1::POD_WANT_RUN;
    if (unasked && report.evicted() && record_.stop_after_ms() > 0) {
      cut_off = reports.node();
    } else if (unasked) {
      ClaimHappening& ended = happen(Happening::PodEnded);
      ended.pod = report.pod();
      ended.exit_code = report.exit_code();
      ended.error = report.error();
    }
  }
  if (!cut_off.empty()) {
    lose_attempt("node " + cut_off + " had no contact for " +
                     std::to_string(record_.stop_after_ms() / 1'000) + " s and stopped it",
                 now);
  }
  check_bound(now);
  check_gone(now);
}

void ClaimRunner::check_bound(Instant now) {
  if (record_.phase() != v1::CLAIM_PHASE_BINDING) return;
  bool all_bound = true, all_started = true;
  for (const v1::PodRecord& pod : record_.pods()) {
    const v1::PodState state = pod.report().state();
    if (state == v1::POD_STATE_REFUSED || (state == v1::POD_STATE_GONE && !record_.committed())) {
      ++refusals_;
      hold_ms_ = refusals_ < 2
                     ? 0
                     : std::min(kRefusedHoldMaxMs, kRefusedHoldMs << std::min(6u, refusals_ - 2));
      return begin_leaving(now);
    }
    all_bound = all_bound && state != v1::POD_STATE_UNSPECIFIED;
    all_started = all_started && (state == v1::POD_STATE_RUNNING || state == v1::POD_STATE_GONE);
  }
  if (all_bound && !record_.committed()) {
    // Saved before the first RUN goes out: no process exists of an attempt that was not committed.
    record_.set_committed(true);
    for (v1::PodRecord& pod : *record_.mutable_pods()) pod.set_want(v1::POD_WANT_RUN);
    dirty_ = true;
  }
  if (record_.committed() && all_started) {
    record_.set_phase(v1::CLAIM_PHASE_RUNNING);
    record_.set_started_wall_ms(now.wall_ms);
    refusals_ = 0;
    refused_by_.clear();
    dirty_ = true;
    happen(Happening::Started);
  }
}

void ClaimRunner::check_gone(Instant now) {
  if (record_.phase() != v1::CLAIM_PHASE_LEAVING) return;
  for (const v1::PodRecord& pod : record_.pods()) {
    if (!is_over(pod)) return;
  }
  ClaimHappening& over = happen(Happening::AttemptOver);
  over.preempted = record_.has_leaving_for();
  over.preempt = record_.leaving_for();
  over.claim_class = record_.claim_class();
  over.pods.assign(record_.pods().begin(), record_.pods().end());
  record_.clear_leaving_for();
  dirty_ = true;
  if (record_.wanted()) return next_attempt(now, std::exchange(hold_ms_, 0));
  record_.set_phase(v1::CLAIM_PHASE_GONE);
}

void ClaimRunner::next_attempt(Instant now, std::int64_t hold_ms) {
  dirty_ = true;
  wait_.Clear();
  never_.Clear();
  if (hold_ms > 0) {
    // While it is held back it wants nothing: neighbours may forget it, its charge ends.
    record_.set_phase(v1::CLAIM_PHASE_GONE);
    hold_until_mono_ms_ = now.mono_ms + hold_ms;
    return;
  }
  record_.set_attempt(record_.attempt() + 1);
  record_.set_phase(v1::CLAIM_PHASE_WAITING);
  record_.set_committed(false);
  record_.clear_pods();
  record_.set_claim_class(v1::CLAIM_CLASS_UNSPECIFIED);
  record_.clear_node_type();
  record_.set_started_wall_ms(0);
  hold_until_mono_ms_ = 0;
}

void ClaimRunner::remind() {
  if (settled()) return;
  quota_.repeat();
  pool_.repeat();
  stirred_ = true;
}

void ClaimRunner::wake(Instant now) {
  const bool held = record_.phase() == v1::CLAIM_PHASE_GONE && record_.wanted();
  if (!held || now.mono_ms < hold_until_mono_ms_) return;
  stirred_ = true;
  next_attempt(now, 0);
}

ClaimRunner::NodeTalk& ClaimRunner::talk_with(const std::string& node) {
  const auto it = nodes_.find(node);
  if (it != nodes_.end()) return it->second;
  NodeTalk talk;
  talk.conversation = Conversation(context_.epoch, node_version_base_);
  return nodes_.emplace(node, std::move(talk)).first->second;
}

ClaimHappening& ClaimRunner::happen(Happening what) {
  happened_.emplace_back();
  happened_.back().what = what;
  return happened_.back();
}

std::vector<ClaimHappening> ClaimRunner::happened() { return std::exchange(happened_, {}); }
bool ClaimRunner::take_dirty() { return std::exchange(dirty_, false); }

std::int64_t ClaimRunner::send_due(const v1::WorkloadSpec& spec, Instant now, Effects& effects) {
  stop_after_ms_ = stop_after_of(spec, context_.tuning);
  // A service of many replicas hears of one at a time: the others have nothing new to say.
  if (!stirred_ && now.mono_ms < next_due_) return next_due_;
  stirred_ = false;
  std::int64_t next = kNever;
  v1::ClaimDemand demand = demand_of(spec);
  if (says_anything_new(demand, &demand_told_)) quota_.touch();
  if (quota_.must_send(now.mono_ms)) {
    quota_.stamp(demand.mutable_header(), now.mono_ms);
    *effects.send("quota/" + spec.quota_id()).mutable_quota()->mutable_claim_demand() =
        std::move(demand);
  }
  // The pool hears of a claim from its quota; the claim answers once it has been spoken to, or
  // holds something.
  v1::ClaimUse use = use_of(spec);
  const bool worth = pool_.heard() || pool_.has_record() || !record_.pods().empty();
  if (worth && says_anything_new(use, &use_told_)) pool_.touch();
  if (pool_.must_send(now.mono_ms)) {
    pool_.stamp(use.mutable_header(), now.mono_ms);
    *effects.send(spec.pool()).mutable_pool()->mutable_claim_use() = std::move(use);
  }
  next = std::min({next, quota_.due(), pool_.due()});
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    NodeTalk& talk = it->second;
    v1::PodOrders orders = orders_of(spec, it->first);
    if (says_anything_new(orders, &talk.told)) talk.conversation.touch();
    if (talk.conversation.must_send(now.mono_ms)) {
      talk.conversation.stamp(orders.mutable_header(), now.mono_ms);
      *effects.send("node/" + it->first).mutable_node()->mutable_pod_orders() = std::move(orders);
    }
    const bool quiet = talk.conversation.settled() && talk.conversation.due() == kNever;
    const bool has_pods = std::any_of(record_.pods().begin(), record_.pods().end(), [&](auto& pod) {
      return pod.place().node() == it->first && !is_over(pod);
    });
    if (quiet && !has_pods) {
      node_version_base_ = std::max(node_version_base_, talk.conversation.mine().version);
      it = nodes_.erase(it);
      continue;
    }
    next = std::min(next, talk.conversation.due());
    ++it;
  }
  if (record_.phase() == v1::CLAIM_PHASE_GONE && record_.wanted()) {
    next = std::min(next, hold_until_mono_ms_);
  }
  told_over_ = over();
  return next_due_ = next;
}

v1::ClaimDemand ClaimRunner::demand_of(const v1::WorkloadSpec& spec) const {
  v1::ClaimDemand demand;
  demand.mutable_claim()->set_workload(context_.address);
  demand.mutable_claim()->set_index(record_.index());
  demand.set_attempt(record_.attempt());
  demand.set_phase(record_.phase());
  *demand.mutable_need() = need_of(spec);
  demand.set_held_class(record_.claim_class());
  demand.set_node_type(record_.node_type());
  demand.set_since_wall_ms(record_.since_wall_ms());
  demand.set_started_wall_ms(record_.started_wall_ms());
  demand.set_workspace(spec.workspace_id());
  demand.set_user(spec.user());
  return demand;
}

v1::ClaimUse ClaimRunner::use_of(const v1::WorkloadSpec& spec) const {
  v1::ClaimUse use;
  use.mutable_claim()->set_workload(context_.address);
  use.mutable_claim()->set_index(record_.index());
  use.set_attempt(record_.attempt());
  use.set_phase(record_.phase());
  use.set_claim_class(record_.claim_class());
  for (const v1::PodRecord& pod : record_.pods()) {
    if (!is_over(pod)) *use.add_places() = pod.place();
  }
  for (const std::string& node : refused_by_) use.add_refused_by(node);
  use.set_quota(spec.quota_id());
  *use.mutable_need() = need_of(spec);
  use.set_started_wall_ms(record_.started_wall_ms());
  use.set_checkpoint_wall_ms(record_.checkpoint_wall_ms());
  use.set_since_wall_ms(record_.since_wall_ms());
  use.set_stop_after_ms(record_.stop_after_ms());
  return use;
}

v1::PodOrders ClaimRunner::orders_of(const v1::WorkloadSpec& spec, const std::string& node) const {
  v1::PodOrders orders;
  orders.mutable_claim()->set_workload(context_.address);
  orders.mutable_claim()->set_index(record_.index());
  orders.set_attempt(record_.attempt());
  orders.set_claim_class(record_.claim_class());
  orders.set_quota(spec.quota_id());
  orders.set_priority(spec.priority());
  orders.set_product(spec.product());
  orders.set_stop_after_ms(record_.stop_after_ms());
  std::uint32_t world = 0;
  for (const v1::RoleSpec& role : spec.roles()) world += role.pods();
  std::string master;
  for (const v1::PodRecord& pod : record_.pods()) {
    if (pod.pod() == 0) master = pod.place().node();
  }
  for (const v1::PodRecord& pod : record_.pods()) {
    if (pod.place().node() != node) continue;
    v1::PodOrder* order = orders.add_pods();
    order->set_pod(pod.pod());
    order->set_want(pod.want());
    *order->mutable_gpus() = pod.place().gpus();
    *order->mutable_amount() = pod.place().amount();
    order->set_grace_period_ms(spec.grace_period_ms());
    if (pod.want() == v1::POD_WANT_GONE) order->set_reason(record_.leaving_for().reason());
    if (pod.want() != v1::POD_WANT_RUN) continue;
    std::uint32_t first = 0;
    for (const v1::RoleSpec& role : spec.roles()) {
      if (pod.pod() < first + role.pods()) {
        *order->mutable_launch() = role.launch();
        order->mutable_launch()->set_role(role.role());
        break;
      }
      first += role.pods();
    }
    order->mutable_launch()->set_rank(pod.pod());
    order->mutable_launch()->set_world_size(world);
    order->mutable_launch()->set_master_node(master);
    order->mutable_launch()->set_job_id(spec.id());
    order->mutable_launch()->set_display_name(spec.name());
    order->mutable_launch()->set_hide_node(record_.foreign());
    order->set_signal(signal_);
    order->set_signal_serial(signal_serial_);
  }
  return orders;
}

}  // namespace ebb::actors
