#include "sim/world/launcher.hpp"

#include <algorithm>
#include <set>

#include "sim/world/world.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kLaunchMs = 100;
constexpr int kSigterm = 15;
constexpr int kKilled = 128 + 9;
constexpr int kTerminated = 128 + 15;

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
        return say(id, v1::ProcessReport::WHAT_STARTED, &found->second);
      }
      const auto over = over_.find(id);
      if (over != over_.end()) return say_over(id, over->second);
      if (starting_.count(id) != 0) return;
      Starting& starting = starting_[id];
      starting.number = ++next_start_;
      for (const v1::GpuShare& share : inbox.launch().gpus()) {
        starting.process.gpus.emplace_back(share.gpu(), share.gpu_milli());
        starting.process.gpu_milli += share.gpu_milli();
      }
      world_.at(world_.now().wall_ms + kLaunchMs,
                [this, id, number = starting.number] { begin(id, number); });
      return;
    }
    case v1::LauncherInbox::kSignal: {
      const PodId id = id_of(inbox.signal().key());
      if (inbox.signal().signo() != kSigterm) return;
      const auto starting = starting_.find(id);
      if (starting != starting_.end()) starting->second.process.told_ms = world_.now().wall_ms;
      const auto found = processes_.find(id);
      if (found != processes_.end()) told_to_leave(id, found->second);
      return;
    }
    case v1::LauncherInbox::kKill: {
      const PodId id = id_of(inbox.kill().key());
      if (processes_.count(id) != 0) return end(id, kKilled);
      starting_.erase(id);
      if (held_.count(id) != 0) return;
      const auto over = over_.find(id);
      if (over != over_.end()) return say_over(id, over->second);
      return say(id, v1::ProcessReport::WHAT_EMPTY, nullptr);
    }
    case v1::LauncherInbox::kContact:
      contact_mono_ms_ = inbox.contact().mono_ms();
      return;
    case v1::LauncherInbox::kProbe: {
      if (contact_mono_ms_ > 0) {
        v1::Envelope envelope;
        envelope.set_from("launcher/" + node_);
        envelope.set_to("node/" + node_);
        envelope.mutable_node()->mutable_last_contact()->set_mono_ms(contact_mono_ms_);
        world_.post(std::move(envelope));
      }
      std::set<PodId> known;
      for (const v1::PodKey& key : inbox.probe().alive()) {
        const PodId id = id_of(key);
        known.insert(id);
        if (starting_.count(id) != 0 || held_.count(id) != 0) continue;
        const auto found = processes_.find(id);
        const auto over = over_.find(id);
        if (found != processes_.end()) {
          say(id, v1::ProcessReport::WHAT_STARTED, &found->second);
        } else if (over != over_.end()) {
          say_over(id, over->second);
        } else {
          say(id, v1::ProcessReport::WHAT_ABSENT, nullptr);
        }
      }
      // What the node does not know of is killed before anything is launched.
      std::vector<PodId> unknown;
      for (const auto& [id, process] : processes_) {
        if (known.count(id) == 0) unknown.push_back(id);
      }
      for (const PodId& id : unknown) end(id, kKilled);
      std::erase_if(starting_, [&](const auto& it) { return known.count(it.first) == 0; });
      return;
    }
    case v1::LauncherInbox::kForget:
      over_.erase(id_of(inbox.forget().key()));
      return;
    default:
      return;
  }
}

void Launcher::told_to_leave(const PodId& id, Process& process) {
  if (process.told_ms != 0) return;
  process.told_ms = world_.now().wall_ms;
  Program& program = world_.program(id.workload, id.index);
  if (program.saves_when_told) program.saved_ms = std::max(program.saved_ms, work_of(process));
  if (program.leaves_after_ms <= 0) return;
  world_.at(process.told_ms + program.leaves_after_ms, [this, id, pid = process.pid] {
    const auto it = processes_.find(id);
    if (it != processes_.end() && it->second.pid == pid) end(id, kTerminated);
  });
}

void Launcher::clear() {
  contact_mono_ms_ = 0;
  for (const auto& [id, process] : processes_) world_.ended(id, node_);
  processes_.clear();
  starting_.clear();
  over_.clear();
  held_.clear();
}

void Launcher::say_over(const PodId& id, const Process& process) {
  say(id, v1::ProcessReport::WHAT_ENDED, &process);
  say(id, v1::ProcessReport::WHAT_EMPTY, &process);
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

void Launcher::begin(const PodId& id, std::uint64_t number) {
  const auto starting = starting_.find(id);
  if (starting == starting_.end() || starting->second.number != number) return;
  Process process = std::move(starting->second.process);
  starting_.erase(starting);
  const bool told = std::exchange(process.told_ms, 0) != 0;
  process.started_ms = world_.now().wall_ms;
  process.resumed_from = world_.program(id.workload, id.index).saved_ms;
  process.pid = ++next_pid_;
  const auto it = processes_.emplace(id, std::move(process)).first;
  world_.started(id, node_);
  say(id, v1::ProcessReport::WHAT_STARTED, &it->second);
  if (told) told_to_leave(id, it->second);
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
      if (same() != nullptr) end(id, world_.program(id.workload, id.index).exit_code);
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
  world_.ended(id, node_);
  const auto silent = silent_.find(id.workload);
  if (silent != silent_.end() && silent->second) {
    held_[id] = exit_code;
    return;
  }
  Process last = process;
  last.exit_code = exit_code;
  over_[id] = last;
  say_over(id, last);
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
