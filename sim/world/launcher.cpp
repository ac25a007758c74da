#include "sim/world/launcher.hpp"

#include <algorithm>

#include "sim/world/world.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kLaunchMs = 100;
constexpr int kSigterm = 15;
constexpr int kKilled = 128 + 9;

PodId id_of(const v1::PodKey& key) {
  return {key.workload(), key.index(), key.attempt(), key.pod()};
}
}  // namespace

void Launcher::handle(const v1::LauncherInbox& inbox) {
  switch (inbox.message_case()) {
    case v1::LauncherInbox::kLaunch: {
      const PodId id = id_of(inbox.launch().key());
      const auto found = processes_.find(id);
      if (found != processes_.end()) {
        say(id, v1::ProcessReport::WHAT_STARTED, &found->second);
        return;
      }
      std::int64_t gpu_milli = 0;
      for (const v1::GpuShare& share : inbox.launch().gpus()) gpu_milli += share.gpu_milli();
      world_.at(world_.now().wall_ms + kLaunchMs, [this, id, gpu_milli] { begin(id, gpu_milli); });
      return;
    }
    case v1::LauncherInbox::kSignal: {
      const auto found = processes_.find(id_of(inbox.signal().key()));
      if (found == processes_.end() || inbox.signal().signo() != kSigterm) return;
      Process& process = found->second;
      if (process.told_ms != 0) return;
      process.told_ms = world_.now().wall_ms;
      Program& program = world_.program(found->first.workload, found->first.index);
      program.saved_ms = std::max(program.saved_ms, work_of(process));
      return;
    }
    case v1::LauncherInbox::kKill: {
      const PodId id = id_of(inbox.kill().key());
      if (processes_.count(id) != 0) return end(id, kKilled);
      if (held_.count(id) != 0) return;
      return say(id, v1::ProcessReport::WHAT_EMPTY, nullptr);
    }
    case v1::LauncherInbox::kProbe:
      for (const v1::PodKey& key : inbox.probe().alive()) {
        const auto found = processes_.find(id_of(key));
        if (found == processes_.end()) {
          say(id_of(key), v1::ProcessReport::WHAT_ABSENT, nullptr);
        } else {
          say(found->first, v1::ProcessReport::WHAT_STARTED, &found->second);
        }
      }
      return;
    default:
      return;
  }
}

void Launcher::adopt(const PodId& id, std::int64_t started_ms, std::int64_t gpu_milli,
                     std::int64_t pid) {
  Process process;
  process.started_ms = started_ms;
  process.gpu_milli = gpu_milli;
  process.pid = pid;
  processes_.emplace(id, process);
  schedule(id);
}

void Launcher::begin(const PodId& id, std::int64_t gpu_milli) {
  if (processes_.count(id) != 0) return;
  Process process;
  process.started_ms = world_.now().wall_ms;
  process.resumed_from = world_.program(id.workload, id.index).saved_ms;
  process.gpu_milli = gpu_milli;
  process.pid = ++next_pid_;
  const auto it = processes_.emplace(id, process).first;
  world_.started(id);
  say(id, v1::ProcessReport::WHAT_STARTED, &it->second);
  schedule(id);
}

void Launcher::schedule(const PodId& id) {
  const Process& process = processes_.at(id);
  const Program& program = world_.program(id.workload, id.index);
  const std::int64_t pid = process.pid;
  const auto same = [this, id, pid]() -> Process* {
    const auto it = processes_.find(id);
    const bool found = it != processes_.end() && it->second.pid == pid && it->second.told_ms == 0;
    return found ? &it->second : nullptr;
  };
  if (program.runs_ms > 0) {
    world_.at(process.started_ms + program.runs_ms - process.resumed_from, [this, id, same] {
      if (same() != nullptr) end(id, 0);
    });
  }
  const std::int64_t every = program.checkpoint_every_ms;
  if (every <= 0) return;
  const auto tick = std::make_shared<std::function<void()>>();
  const std::weak_ptr<std::function<void()>> again = tick;
  *tick = [this, id, same, every, again] {
    Process* const process = same();
    if (process == nullptr) return;
    Program& program = world_.program(id.workload, id.index);
    program.saved_ms = std::max(program.saved_ms, work_of(*process));
    say(id, v1::ProcessReport::WHAT_CHECKPOINT, process);
    if (const auto self = again.lock()) {
      world_.at(world_.now().wall_ms + every, [self] { (*self)(); });
    }
  };
  const std::int64_t past = std::max<std::int64_t>(0, world_.now().wall_ms - process.started_ms);
  world_.at(process.started_ms + (past / every + 1) * every, [tick] { (*tick)(); });
}

std::int64_t Launcher::work_of(const Process& process) const {
  const std::int64_t until = process.told_ms != 0 ? process.told_ms : world_.now().wall_ms;
  return process.resumed_from + std::max<std::int64_t>(0, until - process.started_ms);
}

void Launcher::end(const PodId& id, int exit_code) {
  const Process process = processes_.at(id);
  if (exit_code != 0 && id.pod == 0) {
    Program& program = world_.program(id.workload, id.index);
    program.lost_ms += std::max<std::int64_t>(0, work_of(process) - program.saved_ms);
  }
  processes_.erase(id);
  const auto silent = silent_.find(id.workload);
  if (silent != silent_.end() && silent->second) {
    held_[id] = exit_code;
    return;
  }
  Process last = process;
  last.exit_code = exit_code;
  say(id, v1::ProcessReport::WHAT_ENDED, &last);
  say(id, v1::ProcessReport::WHAT_EMPTY, &last);
}

void Launcher::finish(const std::string& workload) {
  std::vector<PodId> ids;
  for (const auto& [id, process] : processes_) {
    if (id.workload == workload) ids.push_back(id);
  }
  for (const PodId& id : ids) end(id, 0);
}

void Launcher::hold(const std::string& workload, bool held) {
  silent_[workload] = held;
  if (held) return;
  for (auto it = held_.begin(); it != held_.end();) {
    if (it->first.workload != workload) {
      ++it;
      continue;
    }
    Process last;
    last.exit_code = it->second;
    say(it->first, v1::ProcessReport::WHAT_ENDED, &last);
    say(it->first, v1::ProcessReport::WHAT_EMPTY, &last);
    it = held_.erase(it);
  }
}

void Launcher::say(const PodId& id, v1::ProcessReport::What what, const Process* process) {
  v1::Envelope envelope;
  envelope.set_from("launcher/" + node_);
  envelope.set_to("node/" + node_);
  v1::ProcessReport* report = envelope.mutable_node()->mutable_process_report();
  report->set_workload(id.workload);
  report->set_index(id.index);
  report->set_attempt(id.attempt);
  report->set_pod(id.pod);
  report->set_what(what);
  if (process != nullptr) {
    report->set_pid(process->pid);
    report->set_exit_code(process->exit_code);
  }
  world_.post(std::move(envelope));
}

}  // namespace ebb::sim
