#include "tests/actors/workload_bench.hpp"

#include <algorithm>

namespace ebb::test {

using actors::Conversation;
using actors::Effects;

namespace {

v1::WorkloadSpec a_workload(const std::string& id, v1::Product product, std::uint32_t pods) {
  v1::WorkloadSpec spec;
  spec.set_id(id);
  spec.set_name(id);
  spec.set_product(product);
  spec.set_quota_id("q11");
  spec.set_pool("pool/q1");
  spec.set_workspace_id("w1");
  spec.set_user("ann");
  spec.set_priority(3);
  spec.set_idle(v1::IDLE_MODE_FORBIDDEN);
  spec.set_grace_period_ms(30'000);
  v1::RoleSpec* role = spec.add_roles();
  role->set_role("Worker");
  role->set_pods(pods);
  role->mutable_each()->set_gpu_milli(1'000);
  role->mutable_launch()->add_command("train");
  return spec;
}

std::string address_of(const v1::WorkloadSpec& spec) {
  switch (spec.product()) {
    case v1::PRODUCT_SERVICE:
      return "service/" + spec.id();
    case v1::PRODUCT_INSTANCE:
      return "instance/" + spec.id();
    default:
      return "job/" + spec.id();
  }
}

std::uint32_t pods_of(const v1::Need& need) { return actors::pods_of(need); }

}  // namespace

v1::WorkloadSpec a_job(std::uint32_t pods) { return a_workload("d1", v1::PRODUCT_JOB, pods); }
v1::WorkloadSpec a_service(std::uint32_t replicas) {
  v1::WorkloadSpec spec = a_workload("e1", v1::PRODUCT_SERVICE, 1);
  spec.set_replicas(replicas);
  return spec;
}
v1::WorkloadSpec an_instance() { return a_workload("i1", v1::PRODUCT_INSTANCE, 1); }

WorkloadBench::WorkloadBench(const v1::WorkloadSpec& spec, v1::CronScaler cron)
    : address_(address_of(spec)) {
  *saved_.mutable_spec() = spec;
  if (cron.jobs_size() > 0) *saved_.mutable_cron() = std::move(cron);
  record_.set_key(address_);
  record_.set_kind("WorkloadRecord");
  saved_.SerializeToString(record_.mutable_body());
  rebuild();
}

void WorkloadBench::rebuild() {
  machine_ = actors::make_machine({address_, epoch_}, {record_});
  wake_at_ = -1;
  step_machine([&](Effects& effects) { machine_->start(now_, effects); });
}

void WorkloadBench::restart_machine() {
  ++epoch_;
  rebuild();
}

void WorkloadBench::stay_down_ms(std::int64_t ms) {
  machine_.reset();
  down_until_ = now_.mono_ms + ms;
}

void WorkloadBench::step_machine(const std::function<void(Effects&)>& act) {
  Effects effects;
  act(effects);
  ++steps;
  const bool dies = steps == die_after_step || chance(faults.die);
  carry_out(std::move(effects), dies);
  if (dies && !ended) restart_machine();
}

/// Dying means here: after the save, before anything is sent.
void WorkloadBench::carry_out(Effects&& effects, bool dies) {
  for (v1::Record& record : effects.saves) {
    ++saves;
    if (record.erased()) continue;
    saved_.ParseFromString(record.body());
    record_ = std::move(record);
  }
  ended = ended || effects.ended;
  decisions.insert(decisions.end(), effects.decisions.begin(), effects.decisions.end());
  for (const std::string& alarm : effects.alarms) broken.push_back("alarm: " + alarm);
  if (dies) return;
  for (v1::Envelope& envelope : effects.sends) {
    envelope.set_from(address_);
    if (envelope.has_reply()) {
      reply_ = envelope.reply();
    } else {
      fly(std::move(envelope), false);
    }
  }
  wake_at_ = effects.wake_at_mono_ms.value_or(wake_at_);
}

void WorkloadBench::fly(v1::Envelope envelope, bool to_machine) {
  ++messages;
  const auto arrival = [&] {
    return now_.mono_ms + std::uniform_int_distribution<std::int64_t>(1, faults.latest_ms)(random_);
  };
  if (messages == lose_message || chance(faults.lose)) return;
  if (messages == repeat_message) flying_.emplace(now_.mono_ms + 700, Flying{envelope, to_machine});
  if (chance(faults.twice)) flying_.emplace(arrival(), Flying{envelope, to_machine});
  flying_.emplace(arrival(), Flying{std::move(envelope), to_machine});
}

void WorkloadBench::hear(const v1::Envelope& envelope) {
  if (envelope.quota().has_claim_demand()) {
    const v1::ClaimDemand& demand = envelope.quota().claim_demand();
    Claim& claim = claims_[demand.claim().index()];
    if (!claim.quota.receive(demand.header())) return;
    if (demand.attempt() > claim.demand.attempt()) {
      if (demand.claim().index() == 0) asked_at_ms.push_back(now_.mono_ms);
      claim.terms.clear_preempt();
      claim.placement.Clear();
    }
    claim.demand = demand;
    if (demand.phase() == v1::CLAIM_PHASE_GONE) claim.placement.Clear();
  } else if (envelope.pool().has_claim_use()) {
    const v1::ClaimUse& use = envelope.pool().claim_use();
    Claim& claim = claims_[use.claim().index()];
    if (claim.pool.receive(use.header())) claim.use = use;
  } else if (envelope.node().has_pod_orders()) {
    const std::string node = envelope.to().substr(5);
    if (silent.count(node) == 0) hear_orders(node, envelope.node().pod_orders());
  }
}

void WorkloadBench::hear_orders(const std::string& node, const v1::PodOrders& orders) {
  const std::uint32_t index = orders.claim().index();
  Holding& holding = holdings_[{node, index}];
  if (!holding.conversation.receive(orders.header())) return;
  if (orders.attempt() < holding.attempt) return;
  if (orders.attempt() > holding.attempt) {
    for (const auto& [place, other] : holdings_) {
      const bool same_claim = place.second == index && other.attempt < orders.attempt();
      for (const auto& [number, pod] : other.pods) {
        if (same_claim && !pod.gone()) {
          broken.push_back("I6: attempt " + std::to_string(orders.attempt()) + " on " + node +
                           " while attempt " + std::to_string(other.attempt) + " holds " +
                           place.first);
        }
      }
    }
    holding.attempt = orders.attempt();
    holding.pods.clear();
  }
  for (const v1::PodOrder& order : orders.pods()) carry_out_order(holding, orders, order, node);
}

void WorkloadBench::carry_out_order(Holding& holding, const v1::PodOrders& orders,
                                    const v1::PodOrder& order, const std::string& node) {
  Pod& pod = holding.pods[order.pod()];
  pod.report.set_pod(order.pod());
  pod.order = order;
  const v1::PodState state = pod.report.state();
  if (pod.gone() || state == v1::POD_STATE_LEAVING) return;
  switch (order.want()) {
    case v1::POD_WANT_BOUND:
      if (state == v1::POD_STATE_UNSPECIFIED) {
        pod.report.set_state(refusing.count(node) != 0 ? v1::POD_STATE_REFUSED
                                                       : v1::POD_STATE_BOUND);
      }
      break;
    case v1::POD_WANT_RUN: {
      if (state == v1::POD_STATE_RUNNING) break;
      std::size_t bound = 0;
      for (const auto& [place, other] : holdings_) {
        if (place.second != orders.claim().index() || other.attempt != orders.attempt()) continue;
        bound += other.pods.size();
      }
      if (bound != pods_of(claims_[orders.claim().index()].demand.need())) {
        broken.push_back("I7: pod " + std::to_string(order.pod()) + " is to run, only " +
                         std::to_string(bound) + " are bound");
      }
      pod.report.set_state(v1::POD_STATE_RUNNING);
      pod.report.set_started_wall_ms(now_.wall_ms);
      if (program) {
        const auto [runs_ms, exit_code] =
            program(orders.claim().index(), order.pod(), orders.attempt());
        pod.ends_ms = now_.mono_ms + runs_ms;
        pod.report.set_exit_code(exit_code);
      }
      break;
    }
    case v1::POD_WANT_GONE:
      pod.report.set_never_started(state != v1::POD_STATE_RUNNING);
      pod.report.set_evicted(true);
      pod.report.set_exit_code(state == v1::POD_STATE_RUNNING ? 143 : 0);
      pod.report.set_state(v1::POD_STATE_LEAVING);
      pod.ends_ms = now_.mono_ms + leaves_after_ms;
      break;
    default:
      broken.push_back("an order without a want");
  }
}

void WorkloadBench::place_waiting() {
  std::size_t placed = 0;
  for (auto& [index, claim] : claims_) placed += claim.placement.places_size() > 0 ? 1 : 0;
  for (auto& [index, claim] : claims_) {
    if (claim.demand.phase() != v1::CLAIM_PHASE_WAITING) continue;
    if (claim.placement.places_size() > 0 || placed >= places_max) continue;
    ++placed;
    claim.placement.set_claim_class(place_class);
    claim.placement.set_node_type("a100");
    claim.terms.set_admitted(place_class);
    for (std::uint32_t pod = 0; pod < pods_of(claim.demand.need()); ++pod) {
      v1::PodPlace* place = claim.placement.add_places();
      place->set_pod(pod);
      place->set_node("n" + std::to_string((index + pod) % 4));
      place->add_gpus()->set_gpu_milli(1'000);
      place->mutable_amount()->set_gpu_milli(1'000);
    }
  }
}

void WorkloadBench::neighbours_speak() {
  place_waiting();
  for (auto& [index, claim] : claims_) {
    claim.terms.mutable_claim()->set_workload(address_);
    claim.terms.mutable_claim()->set_index(index);
    claim.terms.set_attempt(claim.demand.attempt());
    *claim.placement.mutable_claim() = claim.terms.claim();
    claim.placement.set_attempt(claim.demand.attempt());
    v1::ClaimTerms terms = claim.terms;
    if (actors::says_anything_new(terms, &claim.told_by_quota)) claim.quota.touch();
    if (claim.quota.must_send(now_.mono_ms)) {
      claim.quota.stamp(terms.mutable_header(), now_.mono_ms);
      v1::Envelope envelope;
      envelope.set_from("quota/q11");
      *envelope.mutable_workload()->mutable_claim_terms() = std::move(terms);
      fly(std::move(envelope), true);
    }
    v1::ClaimPlacement placement = claim.placement;
    if (actors::says_anything_new(placement, &claim.told_by_pool)) claim.pool.touch();
    if (claim.pool.must_send(now_.mono_ms)) {
      claim.pool.stamp(placement.mutable_header(), now_.mono_ms);
      v1::Envelope envelope;
      envelope.set_from("pool/q1");
      *envelope.mutable_workload()->mutable_claim_placement() = std::move(placement);
      fly(std::move(envelope), true);
    }
  }
  for (auto& [place, holding] : holdings_) {
    v1::PodReports reports;
    reports.set_node(place.first);
    reports.mutable_claim()->set_workload(address_);
    reports.mutable_claim()->set_index(place.second);
    reports.set_attempt(holding.attempt);
    for (auto& [number, pod] : holding.pods) {
      if (pod.ends_ms >= 0 && pod.ends_ms <= now_.mono_ms) {
        pod.report.set_state(v1::POD_STATE_GONE);
        pod.report.set_ended_wall_ms(now_.wall_ms);
        pod.ends_ms = -1;
      }
      *reports.add_pods() = pod.report;
    }
    if (actors::says_anything_new(reports, &holding.told)) holding.conversation.touch();
    if (holding.conversation.must_send(now_.mono_ms)) {
      holding.conversation.stamp(reports.mutable_header(), now_.mono_ms);
      v1::Envelope envelope;
      envelope.set_from("node/" + place.first);
      *envelope.mutable_workload()->mutable_pod_reports() = std::move(reports);
      fly(std::move(envelope), true);
    }
  }
}

std::int64_t WorkloadBench::next_due() const {
  std::int64_t next = actors::kNever;
  if (machine_ && wake_at_ >= 0) next = std::min(next, wake_at_);
  if (!machine_) next = std::min(next, down_until_);
  if (!flying_.empty()) next = std::min(next, flying_.begin()->first);
  for (const auto& [index, claim] : claims_) {
    next = std::min({next, claim.quota.due(), claim.pool.due()});
  }
  for (const auto& [place, holding] : holdings_) {
    next = std::min(next, holding.conversation.due());
    for (const auto& [number, pod] : holding.pods) {
      if (pod.ends_ms >= 0) next = std::min(next, pod.ends_ms);
    }
  }
  return next;
}

bool WorkloadBench::run_until(const std::function<bool()>& condition, std::int64_t ms) {
  const std::int64_t until = now_.mono_ms + ms;
  while (true) {
    neighbours_speak();
    if (condition()) return true;
    const std::int64_t next = std::max(now_.mono_ms, next_due());
    if (next > until) break;
    now_.wall_ms += next - now_.mono_ms;
    now_.mono_ms = next;
    if (!machine_ && now_.mono_ms >= down_until_) {
      restart_machine();
      continue;
    }
    if (machine_ && !ended && wake_at_ >= 0 && wake_at_ <= now_.mono_ms) {
      wake_at_ = -1;
      step_machine([&](Effects& effects) { machine_->wake(now_, effects); });
      continue;
    }
    if (flying_.empty() || flying_.begin()->first > now_.mono_ms) continue;
    const Flying flying = std::move(flying_.begin()->second);
    flying_.erase(flying_.begin());
    if (!flying.to_machine) {
      hear(flying.envelope);
    } else if (machine_ && !ended) {
      step_machine([&](Effects& effects) {
        machine_->handle(flying.envelope, now_, effects);
        if (!effects.ended) machine_->settle(now_, effects);
      });
    }
  }
  now_.wall_ms += until - now_.mono_ms;
  now_.mono_ms = until;
  return condition();
}

void WorkloadBench::run_ms(std::int64_t ms) {
  (void)run_until([] { return false; }, ms);
}

bool WorkloadBench::reaches(const std::string& status, std::int64_t ms) {
  return run_until([&] { return saved_.status() == status; }, ms);
}

void WorkloadBench::preempt(std::uint32_t index, v1::PreemptReason reason, bool by_pool) {
  Claim& claim = claims_.at(index);
  v1::Preempt* preempt =
      by_pool ? claim.placement.mutable_preempt() : claim.terms.mutable_preempt();
  preempt->set_reason(reason);
  preempt->mutable_by()->set_workload("service/chat");
}

void WorkloadBench::never(std::uint32_t index, const std::string& code,
                          const std::string& message) {
  claims_[index].terms.mutable_never()->set_code(code);
  claims_[index].terms.mutable_never()->set_message(message);
}

void WorkloadBench::wait_reason(std::uint32_t index, v1::WaitCode code,
                                const std::string& sentence) {
  claims_[index].terms.mutable_wait()->set_code(code);
  claims_[index].terms.mutable_wait()->set_sentence(sentence);
}

void WorkloadBench::upgrade(std::uint32_t index) {
  claims_.at(index).placement.set_claim_class(v1::CLAIM_CLASS_IN_QUOTA);
  claims_.at(index).terms.set_admitted(v1::CLAIM_CLASS_IN_QUOTA);
}

void WorkloadBench::forget_demand(std::uint32_t index) {
  Claim& claim = claims_.at(index);
  claim.demand.Clear();
  claim.use.Clear();
  claim.quota = Conversation(1, claim.quota.mine().version);
  claim.pool = Conversation(1, claim.pool.mine().version);
}

void WorkloadBench::pod_exits(std::uint32_t index, std::uint32_t number, int exit_code) {
  for (auto& [place, holding] : holdings_) {
    const auto pod = holding.pods.find(number);
    if (place.second != index || pod == holding.pods.end() || pod->second.gone()) continue;
    pod->second.report.set_exit_code(exit_code);
    pod->second.ends_ms = now_.mono_ms;
  }
}

v1::Reply WorkloadBench::command(const v1::WorkloadCommand& command) {
  v1::Envelope envelope;
  envelope.set_from("gateway/g");
  envelope.set_correlation_id("c1");
  *envelope.mutable_workload()->mutable_command() = command;
  reply_ = {};
  step_machine([&](Effects& effects) {
    machine_->handle(envelope, now_, effects);
    if (!effects.ended) machine_->settle(now_, effects);
  });
  return reply_;
}

v1::WorkloadRecord WorkloadBench::describe() {
  v1::WorkloadCommand ask;
  ask.set_describe(true);
  v1::WorkloadRecord record;
  record.ParseFromString(command(ask).body());
  return record;
}

std::uint32_t WorkloadBench::running() const {
  std::uint32_t count = 0;
  for (const auto& [place, holding] : holdings_) {
    for (const auto& [number, pod] : holding.pods) {
      count += pod.report.state() == v1::POD_STATE_RUNNING ? 1 : 0;
    }
  }
  return count;
}

std::uint32_t WorkloadBench::holding() const {
  std::uint32_t count = 0;
  for (const auto& [place, holding] : holdings_) {
    for (const auto& [number, pod] : holding.pods) count += pod.gone() ? 0 : 1;
  }
  return count;
}

std::set<std::uint32_t> WorkloadBench::claims_running() const {
  std::set<std::uint32_t> claims;
  for (const auto& [place, holding] : holdings_) {
    for (const auto& [number, pod] : holding.pods) {
      if (pod.report.state() == v1::POD_STATE_RUNNING) claims.insert(place.second);
    }
  }
  return claims;
}

const v1::PodOrder* WorkloadBench::order(std::uint32_t index, std::uint32_t number) const {
  for (const auto& [place, holding] : holdings_) {
    const auto pod = holding.pods.find(number);
    if (place.second == index && pod != holding.pods.end()) return &pod->second.order;
  }
  return nullptr;
}

}  // namespace ebb::test
