#include "actors/workload/service_machine.hpp"

#include <algorithm>

#include "scheduling/cron/cron.hpp"

namespace ebb::actors {
namespace {
constexpr std::int64_t kRestartHoldMs = 1'000;  // doubles with each failure in a row
constexpr std::int64_t kRestartHoldMaxMs = 60'000;
constexpr std::int64_t kStableMs = 60'000;  // a replica that ran this long starts counting anew

Result<scheduling::CronSchedule> schedule_of(const v1::CronJob& job, const v1::CronScaler& scaler) {
  scheduling::CronSchedule schedule;
  const auto expression =
      scheduling::parse_cron(job.schedule(), "ScaleJobs " + job.name() + ".Schedule");
  if (!expression) return expression.refusal();
  schedule.expression = *expression;
  const auto zone =
      scheduling::parse_time_zone(job.time_zone(), "ScaleJobs " + job.name() + ".TimeZone");
  if (!zone) return zone.refusal();
  schedule.zone = *zone;
  for (const std::string& text : scaler.exclude_dates()) {
    const auto excluded = scheduling::parse_cron(text, "ExcludeDates");
    if (!excluded) return excluded.refusal();
    schedule.excluded.push_back(*excluded);
  }
  return schedule;
}
}  // namespace

bool ServiceMachine::at_rest() const {
  return std::all_of(runners_.begin(), runners_.end(),
                     [](const auto& runner) { return runner.second->over(); });
}

void ServiceMachine::begin(Instant now, Effects&) {
  if (!record_.status().empty()) return;
  record_.set_submitted_wall_ms(now.wall_ms);
  record_.set_replicas_wanted(spec().replicas());
  set_status("Waiting");
  // A schedule that came with the service has no past: it begins now.
  if (record_.has_cron()) {
    for (v1::CronJob& job : *record_.mutable_cron()->mutable_jobs()) {
      if (job.last_fired_wall_ms() == 0) job.set_last_fired_wall_ms(now.wall_ms);
    }
  }
  note(now, "Normal", "Created", std::to_string(spec().replicas()) + " replicas wanted");
}

void ServiceMachine::on(ClaimRunner& runner, const ClaimHappening& happening, Instant now,
                        Effects& effects) {
  const std::string replica = "replica " + std::to_string(runner.index());
  switch (happening.what) {
    case Happening::Placed:
      break;
    case Happening::Started:
      effects.decide("start service=" + spec().name() +
                     " replica=" + std::to_string(runner.index()));
      note(
          now, "Normal", "Started",
          replica + " runs, waited " + seconds_text(now.wall_ms - runner.record().since_wall_ms()));
      break;
    case Happening::PodEnded: {
      if (runner.phase() != v1::CLAIM_PHASE_BINDING && runner.phase() != v1::CLAIM_PHASE_RUNNING)
        break;
      // A replica is meant to run for ever: however it ended, it is replaced, ever more slowly if
      // it fails again.
      int& failures = failures_[runner.index()];
      const bool stable = runner.record().started_wall_ms() > 0 &&
                          now.wall_ms - runner.record().started_wall_ms() >= kStableMs;
      failures = stable ? 1 : failures + 1;
      const std::int64_t hold =
          std::min(kRestartHoldMaxMs, kRestartHoldMs << std::min(10, failures - 1));
      record_.set_restarts_used(record_.restarts_used() + 1);
      note(now, "Warning", "Restarted",
           replica +
               (happening.error.empty()
                    ? " ended with exit code " + std::to_string(happening.exit_code)
                    : " could not be started: " + happening.error) +
               "; again in " + seconds_text(hold));
      runner.leave(now, hold);
      break;
    }
    case Happening::Leaving:
      effects.decide("evict service=" + spec().name() +
                     " replica=" + std::to_string(runner.index()) +
                     " reason=" + name_of(happening.preempt.reason()));
      break;
    case Happening::NeverFits:
      note(now, "Warning", "CannotFit", replica + ": " + happening.never.message());
      break;
    case Happening::NodeSilent:
      // Another one in its place at once: two of a replica do no harm, and this one ends when its
      // node is heard again.
      runner.finish(now);
      break;
    case Happening::Upgraded:
    case Happening::NodeHeard:
    case Happening::AttemptOver:
      break;
  }
}

std::int64_t ServiceMachine::decide(Instant now, Effects& effects) {
  const std::int64_t next = fire_cron(now, effects);
  match_replicas(now);
  std::uint32_t running = 0, present = 0;
  v1::Refusal never;
  for (const auto& [index, runner] : runners_) {
    if (runner->over()) continue;
    ++present;
    if (runner->running()) ++running;
    if (runner->phase() == v1::CLAIM_PHASE_WAITING && !runner->never().code().empty()) {
      never = runner->never();
    }
  }
  const std::uint32_t wanted = wanted_now();
  if (record_.stopping()) {
    set_status(present == 0 ? "Stopped" : "Stopping");
  } else if (running == wanted && present == wanted) {
    set_status("Running");
    if (!all_running_told_) {
      all_running_told_ = true;
      note(now, "Normal", "Scaled",
           "all " + std::to_string(wanted) + " replicas run, " +
               seconds_text(now.wall_ms - scaled_wall_ms_) + " after the change");
      effects.decide("scaled service=" + spec().name() + " replicas=" + std::to_string(wanted));
    }
  } else {
    set_status(running == 0 ? "Waiting" : "Scaling", "", never.code(),
               std::to_string(running) + " of " + std::to_string(wanted) + " replicas run" +
                   (never.code().empty() ? "" : "; " + never.message()));
  }
  // Replicas that are over and known to be so are forgotten.
  for (auto it = runners_.begin(); it != runners_.end();) {
    if (it->second->over() && it->second->settled()) {
      failures_.erase(it->first);
      it = runners_.erase(it);
      dirty();
    } else {
      ++it;
    }
  }
  return next;
}

void ServiceMachine::match_replicas(Instant now) {
  std::vector<ClaimRunner*> live;
  for (const auto& [index, runner] : runners_) {
    if (runner->record().wanted()) live.push_back(runner.get());
  }
  const std::uint32_t wanted = wanted_now();
  for (std::uint32_t i = static_cast<std::uint32_t>(live.size()); i < wanted; ++i) {
    const std::uint32_t index = record_.next_index();
    record_.set_next_index(index + 1);
    runner(index).want(now);
    dirty();
  }
  if (live.size() <= wanted) return;
  // Fewer: first those that only wait, then the newest.
  std::sort(live.begin(), live.end(), [](const ClaimRunner* a, const ClaimRunner* b) {
    const auto rank = [](const ClaimRunner* r) { return r->running() ? 1 : 0; };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (a->record().started_wall_ms() != b->record().started_wall_ms()) {
      return a->record().started_wall_ms() > b->record().started_wall_ms();
    }
    return a->index() > b->index();
  });
  const std::size_t surplus = live.size() - wanted;
  for (std::size_t i = 0; i < surplus; ++i) live[i]->finish(now);
}

std::int64_t ServiceMachine::fire_cron(Instant now, Effects& effects) {
  if (!record_.has_cron()) return kNever;
  std::int64_t next = kNever;
  // Of several that were due, also while nothing ran here, the latest counts.
  const v1::CronJob* latest = nullptr;
  std::int64_t latest_at = 0;
  for (v1::CronJob& job : *record_.mutable_cron()->mutable_jobs()) {
    const auto schedule = schedule_of(job, record_.cron());
    if (!schedule) continue;  // was checked when it was set
    if (const auto at = last_within(*schedule, job.last_fired_wall_ms(), now.wall_ms)) {
      job.set_last_fired_wall_ms(*at);
      dirty();
      if (*at >= latest_at) {
        latest = &job;
        latest_at = *at;
      }
    }
    const auto at = next_after(*schedule, now.wall_ms);
    if (at) next = std::min(next, now.mono_at_wall(*at));
  }
  if (latest != nullptr) {
    set_replicas(latest->target_size(), "cron " + latest->name(), now, effects);
  }
  return next;
}

void ServiceMachine::set_replicas(std::uint32_t replicas, const std::string& why, Instant now,
                                  Effects& effects) {
  if (replicas == record_.replicas_wanted()) return;
  note(now, "Normal", "Scaling",
       why + ": " + std::to_string(record_.replicas_wanted()) + " -> " + std::to_string(replicas) +
           " replicas");
  effects.decide("scale service=" + spec().name() +
                 " from=" + std::to_string(record_.replicas_wanted()) +
                 " to=" + std::to_string(replicas) + " by=\"" + why + "\"");
  record_.set_replicas_wanted(replicas);
  scaled_wall_ms_ = now.wall_ms;
  all_running_told_ = false;
  dirty();
}

void ServiceMachine::command(const v1::WorkloadCommand& asked, const v1::Envelope& envelope,
                             Instant now, Effects& effects) {
  switch (asked.command_case()) {
    case v1::WorkloadCommand::kRemove:
    case v1::WorkloadCommand::kStop:
      if (!record_.stopping()) note(now, "Normal", "Stopping", "asked to stop");
      record_.set_stopping(true);
      dirty();
      if (asked.command_case() == v1::WorkloadCommand::kStop) accept(envelope, effects);
      break;
    case v1::WorkloadCommand::kStart:
      if (record_.stopping()) note(now, "Normal", "Starting", "asked to start");
      record_.set_stopping(false);
      dirty();
      accept(envelope, effects);
      break;
    case v1::WorkloadCommand::kScale:
      set_replicas(asked.scale(), "asked", now, effects);
      accept(envelope, effects);
      break;
    case v1::WorkloadCommand::kSetCron: {
      std::map<std::string, std::int64_t> fired;
      for (const v1::CronJob& job : record_.cron().jobs()) {
        fired[job.name() + "\n" + job.schedule() + "\n" + job.time_zone()] =
            job.last_fired_wall_ms();
      }
      for (const v1::CronJob& job : asked.set_cron().jobs()) {
        const auto schedule = schedule_of(job, asked.set_cron());
        if (!schedule) return effects.refuse(envelope, schedule.refusal());
      }
      *record_.mutable_cron() = asked.set_cron();
      for (v1::CronJob& job : *record_.mutable_cron()->mutable_jobs()) {
        const auto known = fired.find(job.name() + "\n" + job.schedule() + "\n" + job.time_zone());
        job.set_last_fired_wall_ms(known == fired.end() ? now.wall_ms : known->second);
      }
      note(now, "Normal", "CronScaler", std::to_string(record_.cron().jobs_size()) + " rules set");
      accept(envelope, effects);
      break;
    }
    case v1::WorkloadCommand::kDeleteCron:
      if (!record_.has_cron()) {
        return effects.refuse(
            envelope, {"NotFound", "service \"" + spec().name() + "\" has no cron scaler", 404});
      }
      record_.clear_cron();
      note(now, "Normal", "CronScaler", "removed");
      accept(envelope, effects);
      break;
    default:
      not_for_this(envelope, "this operation", effects);
      break;
  }
}

}  // namespace ebb::actors
