#include "actors/workload/workload_machine.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace ebb::actors {

std::string seconds_text(std::int64_t ms) {
  return std::to_string(ms / 1000) + "." + std::to_string(ms % 1000 / 100) + " s";
}

WorkloadMachine::WorkloadMachine(const Context& context, const std::vector<v1::Record>& records)
    : context_(context) {
  for (const v1::Record& record : records) {
    if (record.kind() == "WorkloadRecord") record_.ParseFromString(record.body());
  }
  for (const v1::ClaimRecord& claim : record_.claims()) {
    runners_.emplace(claim.index(), std::make_unique<ClaimRunner>(context, claim));
  }
  record_.clear_claims();
}

void WorkloadMachine::start(Instant now, Effects& effects) {
  begin(now, effects);
  settle(now, effects);
}

void WorkloadMachine::remind(Instant) {
  for (auto& [index, runner] : runners_) runner->remind();
}

void WorkloadMachine::wake(Instant now, Effects& effects) {
  for (auto& [index, runner] : runners_) runner->wake(now);
  settle(now, effects);
}

void WorkloadMachine::handle(const v1::Envelope& envelope, Instant now, Effects& effects) {
  const v1::WorkloadInbox& inbox = envelope.workload();
  // One that is forgotten here is answered only where an answer is waited for: two who have both
  // forgotten would go on for ever.
  const auto known = [&](const v1::Claim& claim) -> ClaimRunner* {
    const auto it = runners_.find(claim.index());
    return it == runners_.end() ? nullptr : it->second.get();
  };
  switch (inbox.message_case()) {
    case v1::WorkloadInbox::kClaimTerms:
      if (ClaimRunner* runner = known(inbox.claim_terms().claim())) {
        runner->on(inbox.claim_terms(), now);
      } else if (inbox.claim_terms().header().wants_echo()) {
        v1::ClaimDemand* gone =
            effects.send(envelope.from()).mutable_quota()->mutable_claim_demand();
        *gone->mutable_claim() = inbox.claim_terms().claim();
        gone->set_attempt(inbox.claim_terms().attempt());
        gone->set_phase(v1::CLAIM_PHASE_GONE);
        set_last_word(gone->mutable_header(), inbox.claim_terms().header(), now);
      }
      break;
    case v1::WorkloadInbox::kClaimPlacement:
      if (ClaimRunner* runner = known(inbox.claim_placement().claim())) {
        runner->on(inbox.claim_placement(), now);
      } else if (inbox.claim_placement().header().wants_echo()) {
        v1::ClaimUse* gone = effects.send(envelope.from()).mutable_pool()->mutable_claim_use();
        *gone->mutable_claim() = inbox.claim_placement().claim();
        gone->set_attempt(inbox.claim_placement().attempt());
        gone->set_phase(v1::CLAIM_PHASE_GONE);
        gone->set_quota(spec().quota_id());
        set_last_word(gone->mutable_header(), inbox.claim_placement().header(), now);
      }
      break;
    case v1::WorkloadInbox::kPodReports: {
      const v1::PodReports& reports = inbox.pod_reports();
      if (ClaimRunner* runner = known(reports.claim())) {
        runner->on(reports, envelope.from(), now);
      } else if (reports.header().wants_echo()) {
        v1::PodOrders* orders = effects.send(envelope.from()).mutable_node()->mutable_pod_orders();
        *orders->mutable_claim() = reports.claim();
        orders->set_attempt(reports.attempt());
        set_last_word(orders->mutable_header(), reports.header(), now);
      }
      break;
    }
    case v1::WorkloadInbox::kCommand:
      handle_command(inbox.command(), envelope, now, effects);
      break;
    case v1::WorkloadInbox::MESSAGE_NOT_SET:
      effects.alarm("workload got an empty message from=" + envelope.from());
      return;
  }
}

/// For a replica that is over and forgotten here, to one who goes on about it: late messages may
/// have raised it again there. Its number is never used again, so nothing will follow.
void WorkloadMachine::set_last_word(v1::Header* header, const v1::Header& heard,
                                    Instant now) const {
  Conversation once(context_.epoch);
  (void)once.receive(heard);
  once.stamp(header, now.mono_ms);
  header->mutable_stamp()->set_version(~0ull);
  header->set_wants_echo(false);
}

void WorkloadMachine::take_happenings(Instant now, Effects& effects) {
  // Reacting to one may make the next; each only moves a claim forward, so this ends.
  for (bool again = true; again;) {
    again = false;
    for (auto& [index, runner] : runners_) {
      for (const ClaimHappening& happening : runner->happened()) {
        again = true;
        if (happening.what == Happening::Leaving &&
            happening.preempt.reason() == v1::PREEMPT_REASON_NODE_LOST) {
          note(now, "Warning", "NodeLost", claim_text(*runner) + happening.preempt.sentence());
        } else if (happening.what == Happening::Leaving) {
          note(now, "Warning", "Preempted",
               claim_text(*runner) + "told to leave: " + name_of(happening.preempt.reason()) +
                   (happening.preempt.sentence().empty() ? ""
                                                         : ", " + happening.preempt.sentence()));
        }
        if (happening.what == Happening::Upgraded) {
          note(now, "Normal", "Upgraded",
               claim_text(*runner) + "is guaranteed now: its quota covers it where it runs");
        }
        if (happening.what == Happening::NodeSilent) {
          note(now, "Warning", "NodeSilent",
               claim_text(*runner) + "node " + happening.error + " does not answer");
        }
        if (happening.what == Happening::NodeHeard) {
          note(now, "Normal", "NodeHeard", claim_text(*runner) + "its nodes answer again");
        }
        if (happening.what == Happening::AttemptOver) remember(*runner, happening, now);
        on(*runner, happening, now, effects);
      }
    }
  }
}

void WorkloadMachine::remember(const ClaimRunner& runner, const ClaimHappening& over, Instant now) {
  if (over.pods.empty()) return;
  v1::AttemptRecord attempt;
  attempt.set_index(runner.index());
  attempt.set_attempt(runner.record().attempt());
  // next_attempt may have raised it already: the pods are of the one before.
  if (runner.phase() == v1::CLAIM_PHASE_WAITING) attempt.set_attempt(attempt.attempt() - 1);
  attempt.set_ended_wall_ms(now.wall_ms);
  attempt.set_claim_class(over.claim_class);
  const bool lost = over.preempt.reason() == v1::PREEMPT_REASON_NODE_LOST;
  attempt.set_outcome(!over.preempted ? "Ended" : lost ? "Node Lost" : "Resource Preempted");
  if (over.preempted) *attempt.mutable_preempt() = over.preempt;
  if (over.preempted && !lost) {
    record_.set_preemptions(record_.preemptions() + 1);
  }
  for (const v1::PodRecord& pod : over.pods) {
    if (pod.report().started_wall_ms() > 0 &&
        (attempt.started_wall_ms() == 0 ||
         pod.report().started_wall_ms() < attempt.started_wall_ms())) {
      attempt.set_started_wall_ms(pod.report().started_wall_ms());
    }
    *attempt.add_pods() = pod;
  }
  *record_.add_history() = std::move(attempt);
  if (record_.history_size() > kHistoryMax) {
    record_.mutable_history()->DeleteSubrange(0, record_.history_size() - kHistoryMax);
  }
  dirty();
}

void WorkloadMachine::settle(Instant now, Effects& effects) {
  take_happenings(now, effects);
  std::int64_t next = decide(now, effects);
  take_happenings(now, effects);
  next = std::min(next, decide(now, effects));
  if (removing_ && at_rest()) {
    const bool all_settled = std::all_of(runners_.begin(), runners_.end(),
                                         [](auto& runner) { return runner.second->settled(); });
    if (all_settled) {
      effects.erase(context_.address, "WorkloadRecord");
      effects.decide("delete workload=" + context_.address);
      accept(remove_request_, effects);
      effects.ended = true;
      return;
    }
  }
  // Two lists: what the neighbours hear rests on what is saved in the same step.
  std::int64_t resend = kNever;
  for (auto& [index, runner] : runners_) {
    resend = std::min(resend, runner->send_due(spec(), now, effects));
    if (runner->take_dirty()) dirty();
  }
  if (dirty_) {
    dirty_ = false;
    effects.save(context_.address, "WorkloadRecord", whole_record());
  }
  next = std::min(next, resend);
  if (next != kNever) effects.wake_at(std::max(next, now.mono_ms));
}

v1::WorkloadRecord WorkloadMachine::whole_record() const {
  v1::WorkloadRecord record = record_;
  for (const auto& [index, runner] : runners_) {
    *record.add_claims() = runner->record();
    if (runner->phase() == v1::CLAIM_PHASE_WAITING && runner->wait().code() != 0) {
      *record.mutable_wait() = runner->wait();
    }
  }
  return record;
}

ClaimRunner& WorkloadMachine::runner(std::uint32_t index) {
  auto it = runners_.find(index);
  if (it == runners_.end()) {
    it = runners_.emplace(index, std::make_unique<ClaimRunner>(context_, index)).first;
  }
  return *it->second;
}

std::string WorkloadMachine::claim_text(const ClaimRunner& runner) const {
  return spec().product() == v1::PRODUCT_SERVICE ? "replica " + std::to_string(runner.index()) + " "
                                                 : std::string{};
}

void WorkloadMachine::set_status(const std::string& status, const std::string& sub_status,
                                 const std::string& code, const std::string& message) {
  if (record_.status() == status && record_.sub_status() == sub_status &&
      record_.reason_code() == code && record_.reason_message() == message) {
    return;
  }
  record_.set_status(status);
  record_.set_sub_status(sub_status);
  record_.set_reason_code(code);
  record_.set_reason_message(message);
  dirty();
}

void WorkloadMachine::note(Instant now, const std::string& type, const std::string& reason,
                           const std::string& message) {
  v1::WorkloadEvent* event = record_.add_events();
  event->set_wall_ms(now.wall_ms);
  event->set_type(type);
  event->set_reason(reason);
  event->set_message(message);
  if (record_.events_size() > kEventsMax) {
    record_.mutable_events()->DeleteSubrange(0, record_.events_size() - kEventsMax);
  }
  dirty();
}

void WorkloadMachine::accept(const v1::Envelope& envelope, Effects& effects) {
  v1::Reply reply;
  reply.set_id(spec().id());
  effects.reply(envelope, std::move(reply));
}

void WorkloadMachine::not_for_this(const v1::Envelope& envelope, const std::string& what,
                                   Effects& effects) {
  effects.refuse(envelope,
                 {"InvalidOperation",
                  what + " is not possible for a " + name_of(spec().product()) + " workload", 400});
}

void WorkloadMachine::handle_command(const v1::WorkloadCommand& asked, const v1::Envelope& envelope,
                                     Instant now, Effects& effects) {
  switch (asked.command_case()) {
    case v1::WorkloadCommand::kDescribe: {
      v1::Reply reply;
      reply.set_id(spec().id());
      whole_record().SerializeToString(reply.mutable_body());
      return effects.reply(envelope, std::move(reply));
    }
    case v1::WorkloadCommand::kRemove:
      if (spec().product() == v1::PRODUCT_JOB && !at_rest()) {
        return effects.refuse(envelope, {"JobNotEnded",
                                         "JobId: job \"" + spec().id() + "\" is " +
                                             record_.status() + "; stop it before deleting it",
                                         409});
      }
      removing_ = true;
      remove_request_ = envelope;
      remove_request_.clear_payload();
      if (!at_rest()) command(asked, envelope, now, effects);
      return;
    case v1::WorkloadCommand::kUpdate:
      return update(asked.update(), envelope, now, effects);
    case v1::WorkloadCommand::COMMAND_NOT_SET:
      return effects.refuse(envelope, {"InvalidParameter", "the command is empty", 400});
    default:
      if (removing_) {
        return effects.refuse(envelope,
                              {"Deleting", "\"" + spec().id() + "\" is being deleted", 409});
      }
      return command(asked, envelope, now, effects);
  }
}

void WorkloadMachine::update(const v1::WorkloadUpdate& update, const v1::Envelope& envelope,
                             Instant now, Effects& effects) {
  if (update.priority() != 0) {
    if (update.priority() < 1 || update.priority() > 9) {
      return effects.refuse(envelope, {"InvalidParameter",
                                       "Priority " + std::to_string(update.priority()) +
                                           " is not allowed; allowed: 1 to 9",
                                       400});
    }
    if (update.priority() != spec().priority()) {
      note(now, "Normal", "PriorityChanged",
           "priority " + std::to_string(spec().priority()) + " -> " +
               std::to_string(update.priority()));
      record_.mutable_spec()->set_priority(update.priority());
    }
  }
  if (!update.is_private().empty()) {
    record_.mutable_spec()->set_is_private(update.is_private() == "true");
  }
  for (const auto& [key, value] : update.labels())
    (*record_.mutable_spec()->mutable_labels())[key] = value;
  if (!update.request_json().empty())
    record_.mutable_spec()->set_request_json(update.request_json());
  for (auto& [index, runner] : runners_) runner->spec_changed();
  dirty();
  accept(envelope, effects);
}

}  // namespace ebb::actors
