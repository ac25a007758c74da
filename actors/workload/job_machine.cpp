#include "actors/workload/job_machine.hpp"

#include <algorithm>

#include "scheduling/restart/restart.hpp"

namespace ebb::actors {

bool JobMachine::is_final() const {
  return record_.status() == "Succeeded" || record_.status() == "Failed" ||
         record_.status() == "Stopped";
}

bool JobMachine::at_rest() const { return is_final(); }

void JobMachine::begin(Instant now, Effects&) {
  if (!record_.status().empty()) return;
  record_.set_submitted_wall_ms(now.wall_ms);
  set_status("Queuing");
  note(now, "Normal", "Queued", "waits in quota " + spec().quota_id());
  runner(0).want(now);
}

const v1::RoleSpec& JobMachine::role_of(std::uint32_t pod) const {
  std::uint32_t first = 0;
  for (const v1::RoleSpec& role : spec().roles()) {
    if (pod < first + role.pods()) return role;
    first += role.pods();
  }
  return spec().roles(0);
}

void JobMachine::on(ClaimRunner& runner, const ClaimHappening& happening, Instant now,
                    Effects& effects) {
  switch (happening.what) {
    case Happening::Placed:
      note(now, "Normal", "Placed",
           runner.record().claim_class() == v1::CLAIM_CLASS_IDLE ? "placed on idle resources"
                                                                 : "placed in-quota");
      break;
    case Happening::Started:
      if (record_.running_wall_ms() == 0) record_.set_running_wall_ms(now.wall_ms);
      note(now, "Normal", "Started",
           "attempt " + std::to_string(runner.record().attempt()) + " runs, waited " +
               seconds_text(now.wall_ms - runner.record().since_wall_ms()));
      effects.decide("start job=" + spec().id() +
                     " attempt=" + std::to_string(runner.record().attempt()));
      break;
    case Happening::PodEnded:
      pod_ended(runner, happening, now, effects);
      break;
    case Happening::Leaving:
      effects.decide("evict job=" + spec().id() +
                     " attempt=" + std::to_string(runner.record().attempt()) +
                     " reason=" + name_of(happening.preempt.reason()) +
                     " by=" + text_of(key_of(happening.preempt.by())));
      break;
    case Happening::Upgraded:
    case Happening::NodeSilent:
    case Happening::NodeHeard:
      break;
    case Happening::NeverFits:
      end("Failed", happening.never.code(), happening.never.message(), now, effects);
      break;
    case Happening::AttemptOver:
      if (ended_well(happening)) {
        end("Succeeded", "JobSucceeded", "ended well while it was told to leave", now, effects);
      } else if (record_.stopping()) {
        end("Stopped", "Stopped", "stopped on request", now, effects);
      } else if (happening.preempted && !is_final() &&
                 happening.preempt.reason() == v1::PREEMPT_REASON_NODE_LOST) {
        set_status("Restarting", "", "NodeLost", happening.preempt.sentence());
        note(now, "Normal", "Queued", "waits again, its place in time is kept");
      } else if (happening.preempted && !is_final()) {
        set_status("Queuing", "Resource Preempted", "ResourcePreempted",
                   std::string("put back: ") + name_of(happening.preempt.reason()));
        note(now, "Normal", "Queued", "waits again, its place in time is kept");
      }
      break;
  }
}

/// It was told to go, yet its processes had ended by themselves before the word reached them.
bool JobMachine::ended_well(const ClaimHappening& over) const {
  if (over.pods.empty()) return false;
  const auto ok = [](const v1::PodRecord& pod) {
    return pod.report().state() == v1::POD_STATE_GONE && pod.report().exit_code() == 0 &&
           !pod.report().evicted() && !pod.report().never_started() && pod.report().error().empty();
  };
  if (spec().success_policy() == "ChiefWorker") return ok(over.pods.front());
  return std::all_of(over.pods.begin(), over.pods.end(), ok);
}

void JobMachine::pod_ended(ClaimRunner& runner, const ClaimHappening& ended, Instant now,
                           Effects& effects) {
  if (is_final() || record_.stopping()) return;
  if (runner.phase() != v1::CLAIM_PHASE_BINDING && runner.phase() != v1::CLAIM_PHASE_RUNNING)
    return;
  const v1::RoleSpec& role = role_of(ended.pod);
  scheduling::PodEnd end_of_pod;
  const auto report =
      std::find_if(runner.record().pods().begin(), runner.record().pods().end(),
                   [&](const v1::PodRecord& pod) { return pod.pod() == ended.pod; });
  const bool ran = report != runner.record().pods().end() && report->report().pid() > 0 &&
                   !report->report().never_started();
  // One that could not be started ends as a shell says "not found"; one whose node rebooted keeps
  // its unknown code.
  end_of_pod.exit_code = ended.error.empty() || ran ? ended.exit_code : 127;
  end_of_pod.is_chief = ended.pod == 0;
  end_of_pod.all_others_ok = std::all_of(
      runner.record().pods().begin(), runner.record().pods().end(), [&](const v1::PodRecord& pod) {
        return pod.pod() == ended.pod ||
               (pod.report().state() == v1::POD_STATE_GONE && pod.report().exit_code() == 0 &&
                pod.report().error().empty());
      });
  scheduling::RestartRules rules;
  rules.policy = scheduling::parse_restart_policy(role.restart_policy());
  rules.chief_decides = spec().success_policy() == "ChiefWorker";
  rules.restarts_used = record_.restarts_used();
  rules.restarts_max = spec().restarts_max();
  const std::string what =
      ended.error.empty()
          ? "pod " + std::to_string(ended.pod) + " (" + role.role() + ") ended with exit code " +
                std::to_string(ended.exit_code)
          : "pod " + std::to_string(ended.pod) + " could not be started: " + ended.error;
  switch (scheduling::decide_pod_end(end_of_pod, rules)) {
    case scheduling::PodEndMeans::Wait:
      note(now, "Normal", "PodEnded", what);
      break;
    case scheduling::PodEndMeans::Succeed:
      end("Succeeded", "JobSucceeded", what, now, effects);
      break;
    case scheduling::PodEndMeans::Fail:
      end("Failed", "JobFailed", what, now, effects);
      break;
    case scheduling::PodEndMeans::Restart:
      record_.set_restarts_used(record_.restarts_used() + 1);
      note(now, "Warning", "Restarted",
           what + "; restart " + std::to_string(record_.restarts_used()) + "/" +
               std::to_string(spec().restarts_max()));
      set_status("Restarting", "", "PodFailed", what);
      runner.leave(now);
      break;
  }
}

void JobMachine::end(const std::string& status, const std::string& code, const std::string& message,
                     Instant now, Effects& effects) {
  if (is_final()) return;
  record_.set_finished_wall_ms(now.wall_ms);
  set_status(status, "", code, message);
  note(now, status == "Failed" ? "Warning" : "Normal", status, message);
  effects.decide("end job=" + spec().id() + " status=" + status);
  runner(0).finish(now);
}

std::int64_t JobMachine::decide(Instant now, Effects& effects) {
  if (is_final()) return kNever;
  ClaimRunner& claim = runner(0);
  switch (claim.phase()) {
    case v1::CLAIM_PHASE_WAITING:
      if (record_.status() == "EnvPreparing" || record_.status() == "Running")
        set_status("Queuing");
      break;
    case v1::CLAIM_PHASE_BINDING:
      set_status("EnvPreparing");
      break;
    case v1::CLAIM_PHASE_RUNNING:
      set_status("Running");
      break;
    case v1::CLAIM_PHASE_LEAVING:
      if (record_.stopping()) set_status("Stopping");
      break;
    default:
      if (record_.stopping()) end("Stopped", "Stopped", "stopped on request", now, effects);
      break;
  }
  if (spec().run_at_most_ms() <= 0 || claim.phase() != v1::CLAIM_PHASE_RUNNING) return kNever;
  const std::int64_t until = claim.record().started_wall_ms() + spec().run_at_most_ms();
  if (now.wall_ms < until) return now.mono_at_wall(until);
  record_.set_stopping(true);
  end("Failed", "JobMaxRunningTimeExceeded",
      "JobMaxRunningTimeMinutes: ran for " + seconds_text(spec().run_at_most_ms()) +
          ", the most it was allowed",
      now, effects);
  return kNever;
}

void JobMachine::command(const v1::WorkloadCommand& asked, const v1::Envelope& envelope,
                         Instant now, Effects& effects) {
  if (asked.command_case() != v1::WorkloadCommand::kStop) {
    return not_for_this(envelope, "this operation", effects);
  }
  if (is_final()) {
    if (record_.status() == "Stopped") return accept(envelope, effects);
    return effects.refuse(
        envelope,
        {"JobEnded",
         "JobId: job \"" + spec().id() + "\" has already ended (" + record_.status() + ")", 409});
  }
  if (!record_.stopping()) {
    record_.set_stopping(true);
    note(now, "Normal", "Stopping", "asked to stop");
    runner(0).finish(now);
    dirty();
  }
  accept(envelope, effects);
}

}  // namespace ebb::actors
