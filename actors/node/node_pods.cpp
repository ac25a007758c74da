// Orders of workloads and reports of the launcher, pod by pod.
#include <algorithm>
#include <csignal>
#include <set>

#include "actors/node/node_machine.hpp"

namespace ebb::actors {
namespace {
constexpr std::int32_t kUnknownExitCode = -1;
constexpr std::int64_t kKillAgainMs = 2'000;
constexpr int kSignalMax = 64;

/// Empty: the orders can be read.
std::string why_invalid(const v1::PodOrders& orders, const std::string& from) {
  if (orders.claim().workload() != from) {
    return "claim.workload is " + orders.claim().workload() + ", the sender is " + from;
  }
  if (orders.attempt() == 0) return "attempt is 0, attempts count from 1";
  std::set<std::uint32_t> pods;
  for (const v1::PodOrder& order : orders.pods()) {
    const std::string pod = "pod " + std::to_string(order.pod());
    if (!pods.insert(order.pod()).second) return pod + " is listed twice";
    if (order.want() != v1::POD_WANT_BOUND && order.want() != v1::POD_WANT_RUN &&
        order.want() != v1::POD_WANT_GONE) {
      return pod + ": want is " + std::to_string(order.want()) + ", known are BOUND, RUN, GONE";
    }
  }
  return {};
}

/// Of a pod that must leave without an order of its own.
std::int64_t grace_of(const v1::PodOrder& order) {
  return order.grace_period_ms() > 0 ? order.grace_period_ms() : kGraceUnsaidMs;
}

std::string words(const ClaimKey& key, std::uint32_t attempt, std::uint32_t pod) {
  return " claim=" + text_of(key) + " attempt=" + std::to_string(attempt) +
         " pod=" + std::to_string(pod);
}
}  // namespace

void NodeMachine::on(const v1::PodOrders& orders, const std::string& from, Instant now,
                     Effects& effects) {
  const std::string invalid = why_invalid(orders, from);
  if (!invalid.empty()) return effects.alarm("pod orders refused reason=\"" + invalid + '"');
  const ClaimKey key = key_of(orders.claim());
  ClaimEntry& entry = entry_of(key);
  busy_.insert(key);
  if (!entry.workload.receive(orders.header())) return;  // late or repeated
  entry.unsaved = true;                                  // the stamp
  if (orders.attempt() < entry.head.attempt()) return;
  if (orders.attempt() > entry.head.attempt()) {
    begin_attempt(key, entry, orders.attempt(), now, effects);
  }
  entry.head.set_quota(orders.quota());
  entry.head.set_claim_class(orders.claim_class());
  entry.head.set_priority(orders.priority());
  entry.head.set_product(orders.product());
  entry.head.set_stop_after_ms(orders.stop_after_ms());
  table_changed_ = true;
  std::set<std::uint32_t> listed;
  for (const v1::PodOrder& order : orders.pods()) {
    listed.insert(order.pod());
    obey(key, entry, order, now, effects);
  }
  for (auto& [id, pod] : entry.pods) {
    if (id.first != entry.head.attempt() || listed.count(id.second) != 0) continue;
    pod.order.set_want(v1::POD_WANT_GONE);
    leave(key, entry, id, pod, grace_of(pod.order), now, effects);
  }
}

void NodeMachine::begin_attempt(const ClaimKey& key, ClaimEntry& entry, std::uint32_t attempt,
                                Instant now, Effects& effects) {
  entry.head.set_attempt(attempt);
  entry.head.set_released(false);
  entry.change();
  for (auto it = entry.pods.begin(); it != entry.pods.end();) {
    Pod& pod = it->second;
    pod.order.set_want(v1::POD_WANT_GONE);
    leave(key, entry, it->first, pod, grace_of(pod.order), now, effects);
    it = pod.holds_slot() ? std::next(it) : entry.pods.erase(it);
  }
}

void NodeMachine::obey(const ClaimKey& key, ClaimEntry& entry, const v1::PodOrder& order,
                       Instant now, Effects& effects) {
  const PodId id{entry.head.attempt(), order.pod()};
  const auto found = entry.pods.find(id);
  Pod& pod = found == entry.pods.end() ? bind(key, entry, order, effects) : found->second;
  pod.order.set_want(order.want());
  pod.order.set_reason(order.reason());
  if (!pod.holds_slot()) return;
  if (order.want() == v1::POD_WANT_RUN) run(key, entry, id, pod, order, now, effects);
  if (order.want() == v1::POD_WANT_GONE) {
    leave(key, entry, id, pod, order.grace_period_ms(), now, effects);
  }
}

NodeMachine::Pod& NodeMachine::bind(const ClaimKey& key, ClaimEntry& entry,
                                    const v1::PodOrder& order, Effects& effects) {
  const std::string refusal =
      order.want() == v1::POD_WANT_GONE ? "" : why_not_bound_here(key, entry, order);
  Pod& pod = entry.pods[{entry.head.attempt(), order.pod()}];
  pod.order = order;
  pod.order.clear_launch();
  pod.order.clear_signal();
  pod.order.clear_signal_serial();
  pod.report.set_pod(order.pod());
  pod.report.set_host(facts_.host());
  entry.change();
  if (order.want() == v1::POD_WANT_GONE) {
    // A receipt for what was never here, or is long forgotten: silence would keep a charge for
    // ever.
    pod.report.set_state(v1::POD_STATE_GONE);
    pod.report.set_never_started(!entry.head.released());
    pod.report.set_exit_code(kUnknownExitCode);
    pod.report.set_evicted(true);
    return pod;
  }
  if (!refusal.empty()) {
    pod.report.set_state(v1::POD_STATE_REFUSED);
    pod.report.set_refusal(refusal);
    effects.decide("refuse" + words(key, entry.head.attempt(), order.pod()) + " reason=\"" +
                   refusal + '"');
    return pod;
  }
  pod.report.set_state(v1::POD_STATE_BOUND);
  holders_.insert(key);
  return pod;
}

std::string NodeMachine::why_not_bound_here(const ClaimKey& key, const ClaimEntry& entry,
                                            const v1::PodOrder& order) const {
  if (entry.head.released()) {
    return "attempt " + std::to_string(entry.head.attempt()) + " of " + text_of(key) +
           " was released on this node";
  }
  for (const auto& [id, pod] : entry.pods) {
    if (id.first < entry.head.attempt()) {
      return "attempt " + std::to_string(id.first) + " of " + text_of(key) +
             " is still on its way out here";
    }
  }
  return why_not_bound(facts_, use(), order);
}

void NodeMachine::run(const ClaimKey& key, ClaimEntry& entry, PodId id, Pod& pod,
                      const v1::PodOrder& order, Instant now, Effects& effects) {
  if (pod.state() == v1::POD_STATE_BOUND) {
    *pod.order.mutable_launch() = order.launch();
    pod.order.set_grace_period_ms(order.grace_period_ms());
    step(entry, pod, PodEvent::Run);
    if (order.launch().command().empty()) {
      pod.report.set_error("launch.command is empty: it names the program to start");
      pod.report.set_never_started(true);
      pod.report.set_exit_code(kUnknownExitCode);
      step(entry, pod, PodEvent::Failed);
      return over(key, id, pod, now, effects);
    }
    send_launch(key, entry, id, pod, effects);
  }
  const bool runs = pod.state() == v1::POD_STATE_STARTING || pod.state() == v1::POD_STATE_RUNNING;
  if (!runs || order.signal_serial() <= pod.order.signal_serial()) return;
  pod.order.set_signal_serial(order.signal_serial());
  if (order.signal() < 1 || order.signal() > kSignalMax) {
    return effects.alarm("signal refused" + words(key, id.first, id.second) +
                         " signal=" + std::to_string(order.signal()) + " allowed=1..64");
  }
  send_signal(key, id, order.signal(), false, effects);
}

void NodeMachine::leave(const ClaimKey& key, ClaimEntry& entry, PodId id, Pod& pod,
                        std::int64_t grace_ms, Instant now, Effects& effects) {
  const v1::PodState before = pod.state();
  grace_ms = std::max<std::int64_t>(0, grace_ms);
  if (step(entry, pod, PodEvent::Leave)) {
    pod.report.set_evicted(true);
    effects.decide("evict" + words(key, id.first, id.second) + " reason=" +
                   name_of(pod.order.reason()) + " grace_ms=" + std::to_string(grace_ms));
    if (before == v1::POD_STATE_BOUND) {
      pod.report.set_never_started(true);
      return;
    }
    if (grace_ms > 0) send_signal(key, id, SIGTERM, true, effects);
  } else if (before != v1::POD_STATE_LEAVING || !pod.report.evicted() ||
             now.mono_ms + grace_ms >= pod.kill_at_mono_ms) {
    return;  // over, ending by itself, or already to be gone earlier
  }
  pod.order.set_grace_period_ms(grace_ms);
  pod.kill_at_mono_ms = now.mono_ms + grace_ms;
  pod.leave_by_wall_ms =
      now.wall_ms + static_cast<std::int64_t>(static_cast<double>(grace_ms) * now.speed);
  busy_.insert(key);
}

void NodeMachine::resume_leaving(const ClaimKey& key, PodId id, Pod& pod, Instant now,
                                 Effects& effects) {
  if (!pod.report.evicted()) {
    pod.kill_at_mono_ms = now.mono_ms;
    return;
  }
  const auto left = static_cast<std::int64_t>(
      static_cast<double>(pod.leave_by_wall_ms - now.wall_ms) / now.speed);
  // A wall clock that was set back cannot lengthen the grace beyond what was granted.
  const std::int64_t grace_ms =
      std::clamp<std::int64_t>(left, 0, std::max<std::int64_t>(0, pod.order.grace_period_ms()));
  // The launcher drops the signal where it was delivered before.
  if (grace_ms > 0) send_signal(key, id, SIGTERM, true, effects);
  pod.kill_at_mono_ms = now.mono_ms + grace_ms;
}

void NodeMachine::kill_overdue(const ClaimKey& key, ClaimEntry& entry, Instant now,
                               Effects& effects) {
  for (auto& [id, pod] : entry.pods) {
    if (now.mono_ms < pod.kill_at_mono_ms) continue;
    pod.kill_at_mono_ms = now.mono_ms + kKillAgainMs;
    send_kill(key, id, effects);
  }
}

/// The dead-man of jobs that ask for it: their scheduler starts them elsewhere after some silence,
/// so they end here before. Returns when it has to look again.
std::int64_t NodeMachine::stop_what_is_cut_off(Instant now, Effects& effects) {
  std::int64_t next = kNever;
  if (!contact_mono_ms_) return next;
  for (const ClaimKey& key : holders_) {
    ClaimEntry& entry = claims_.at(key);
    const std::int64_t stop_after_ms = entry.head.stop_after_ms();
    if (stop_after_ms <= 0) continue;
    if (!scheduling::must_stop(now.mono_ms - *contact_mono_ms_, stop_after_ms)) {
      next = std::min(next, *contact_mono_ms_ + stop_after_ms);
      continue;
    }
    busy_.insert(key);
    for (auto& [id, pod] : entry.pods) {
      if (!pod.holds_slot() || pod.state() == v1::POD_STATE_LEAVING) continue;
      pod.order.set_reason(v1::PREEMPT_REASON_NODE_LOST);
      leave(key, entry, id, pod, pod.order.grace_period_ms(), now, effects);
      effects.alarm("no contact, pod stopped" + words(key, id.first, id.second) +
                    " silent_ms=" + std::to_string(now.mono_ms - *contact_mono_ms_));
    }
  }
  return next;
}

void NodeMachine::on(const v1::ProcessReport& report, Instant now, Effects& effects) {
  const ClaimKey key{report.workload(), report.index()};
  const PodId id{report.attempt(), report.pod()};
  const auto claim = claims_.find(key);
  if (claim == claims_.end() || claim->second.pods.count(id) == 0) return;
  ClaimEntry& entry = claim->second;
  Pod& pod = entry.pods.at(id);
  busy_.insert(key);
  switch (report.what()) {
    case v1::ProcessReport::WHAT_STARTED:
      if (!pod.holds_slot()) return;
      if (step(entry, pod, PodEvent::Started)) {
        pod.report.set_started_wall_ms(now.wall_ms);
      } else if (pod.report.pid() == report.pid()) {
        return;
      }
      pod.report.set_pid(report.pid());
      pod.report.set_process_start(report.process_start());
      pod.report.set_log_path(report.log_path());
      pod.report.set_port(report.port());
      entry.change();
      return;
    case v1::ProcessReport::WHAT_ENDED:
      if (!pod.holds_slot() || pod.report.ended_wall_ms() != 0) return;
      pod.report.set_exit_code(report.exit_code());
      pod.report.set_ended_wall_ms(now.wall_ms);
      entry.unsaved = true;
      // By itself: what it has left behind is not waited for.
      if (step(entry, pod, PodEvent::Ended)) pod.kill_at_mono_ms = now.mono_ms;
      return;
    case v1::ProcessReport::WHAT_ABSENT:
      if (pod.state() == v1::POD_STATE_STARTING) {
        return send_launch(key, entry, id, pod, effects);  // the order was lost with the process
      }
      [[fallthrough]];
    case v1::ProcessReport::WHAT_EMPTY:
      if (!step(entry, pod, PodEvent::Empty)) return;
      if (pod.report.ended_wall_ms() == 0) {
        const bool absent = report.what() == v1::ProcessReport::WHAT_ABSENT;
        pod.report.set_exit_code(absent ? kUnknownExitCode : report.exit_code());
        pod.report.set_ended_wall_ms(now.wall_ms);
      }
      return over(key, id, pod, now, effects);
    case v1::ProcessReport::WHAT_FAILED:
      if (!step(entry, pod, PodEvent::Failed)) return;
      pod.report.set_exit_code(report.exit_code());
      pod.report.set_error(report.error());
      pod.report.set_log_path(report.log_path());
      pod.report.set_never_started(true);
      pod.report.set_ended_wall_ms(now.wall_ms);
      return over(key, id, pod, now, effects);
    case v1::ProcessReport::WHAT_CHECKPOINT:
      if (!pod.holds_slot()) return;
      pod.report.set_checkpoint_wall_ms(now.wall_ms);
      entry.change();
      return;
    default:
      return effects.alarm("unknown process report" + words(key, id.first, id.second));
  }
}

bool NodeMachine::step(ClaimEntry& entry, Pod& pod, PodEvent event) {
  const auto next = next_state(pod.state(), event);
  if (!next) return false;
  pod.report.set_state(*next);
  entry.change();
  return true;
}

void NodeMachine::over(const ClaimKey& key, PodId id, Pod& pod, Instant, Effects& effects) {
  pod.kill_at_mono_ms = kNever;
  pod.order.clear_launch();
  effects.decide("gone" + words(key, id.first, id.second) +
                 " exit_code=" + std::to_string(pod.report.exit_code()) +
                 " evicted=" + (pod.report.evicted() ? "true" : "false"));
  send_forget(key, id, effects);
}

}  // namespace ebb::actors
