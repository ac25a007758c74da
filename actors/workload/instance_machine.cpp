#include "actors/workload/instance_machine.hpp"

#include <algorithm>

namespace ebb::actors {

bool InstanceMachine::at_rest() const {
  return std::all_of(runners_.begin(), runners_.end(),
                     [](const auto& runner) { return runner.second->over(); });
}

void InstanceMachine::begin(Instant now, Effects&) {
  if (!record_.status().empty()) return;
  record_.set_submitted_wall_ms(now.wall_ms);
  set_status("Queuing");
  note(now, "Normal", "Queued", "waits in quota " + spec().quota_id());
  runner(0).want(now);
}

void InstanceMachine::on(ClaimRunner& runner, const ClaimHappening& happening, Instant now,
                         Effects& effects) {
  switch (happening.what) {
    case Happening::Started:
      if (record_.running_wall_ms() == 0) record_.set_running_wall_ms(now.wall_ms);
      note(now, "Normal", "Started", "runs");
      effects.decide("start instance=" + spec().id());
      break;
    case Happening::PodEnded:
      if (record_.stopping() || (runner.phase() != v1::CLAIM_PHASE_BINDING &&
                                 runner.phase() != v1::CLAIM_PHASE_RUNNING)) {
        break;
      }
      set_status("Failed", "", "InstanceEnded",
                 happening.error.empty()
                     ? "its process ended with exit code " + std::to_string(happening.exit_code)
                     : "could not be started: " + happening.error);
      note(now, "Warning", "Failed", record_.reason_message());
      runner.finish(now);
      break;
    case Happening::Leaving:
      effects.decide("evict instance=" + spec().id() +
                     " reason=" + name_of(happening.preempt.reason()));
      break;
    case Happening::AttemptOver:
      if (happening.preempted && !record_.stopping()) {
        set_status("Queuing", "Resource Preempted", "ResourcePreempted",
                   std::string("put back: ") + name_of(happening.preempt.reason()));
      }
      break;
    case Happening::NeverFits:
      set_status("Failed", "", happening.never.code(), happening.never.message());
      note(now, "Warning", "Failed", happening.never.message());
      runner.finish(now);
      break;
    case Happening::Upgraded:
    case Happening::NodeSilent:
    case Happening::NodeHeard:
    case Happening::Placed:
      break;
  }
}

std::int64_t InstanceMachine::decide(Instant, Effects&) {
  if (record_.status() == "Failed" && !record_.stopping()) return kNever;
  switch (runner(0).phase()) {
    case v1::CLAIM_PHASE_WAITING:
      if (record_.sub_status().empty()) set_status("Queuing");
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
      if (record_.stopping()) set_status("Stopped");
      break;
  }
  return kNever;
}

void InstanceMachine::command(const v1::WorkloadCommand& asked, const v1::Envelope& envelope,
                              Instant now, Effects& effects) {
  switch (asked.command_case()) {
    case v1::WorkloadCommand::kRemove:
    case v1::WorkloadCommand::kStop:
      if (!record_.stopping()) {
        record_.set_stopping(true);
        note(now, "Normal", "Stopping", "asked to stop");
        runner(0).finish(now);
      }
      if (asked.command_case() == v1::WorkloadCommand::kStop) accept(envelope, effects);
      break;
    case v1::WorkloadCommand::kStart:
      if (!runner(0).over()) {
        if (!record_.stopping())
          return accept(envelope, effects);  // it is starting or running already
        return effects.refuse(envelope, {"InstanceStopping",
                                         "InstanceId: \"" + spec().id() +
                                             "\" is still stopping; start it when it is Stopped",
                                         409});
      }
      record_.set_stopping(false);
      set_status("Queuing");
      note(now, "Normal", "Queued", "asked to start");
      runner(0).want(now);
      accept(envelope, effects);
      break;
    default:
      not_for_this(envelope, "this operation", effects);
      break;
  }
}

}  // namespace ebb::actors
