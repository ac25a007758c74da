#include "sim/world/world.hpp"

#include <algorithm>

#include "base/planted.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kLatencyMs = 1;
constexpr std::int64_t kMonoAtBegin = 1'000'000;
constexpr std::int64_t kDirectoryMs = 200;  // until others hear that a process has come up
constexpr const char* kAsker = "gateway/ask";

std::uint64_t word_of(const v1::Envelope& envelope) {
  return envelope.ByteSizeLong() * 0x9e3779b97f4a7c15ull ^ envelope.from_epoch() << 40 ^
         envelope.message_id();
}
}  // namespace

World::World(std::uint64_t seed, std::int64_t begin_wall_ms)
    : random_(seed), wall_ms_(begin_wall_ms), mono_offset_(begin_wall_ms - kMonoAtBegin) {}

Instant World::now() const { return {wall_ms_ - mono_offset_, wall_ms_, 1.0}; }

Instant World::now_in(ProcessId process) const {
  return {wall_ms_ - mono_offset_, wall_ms_ + processes_[process].skew_ms, 1.0};
}

World::CellId World::cell(std::string_view address) {
  const auto found = cell_ids_.find(address);
  if (found != cell_ids_.end()) return found->second;
  const CellId id = static_cast<CellId>(cells_.size());
  cells_.emplace_back();
  Cell& fresh = cells_.back();
  fresh.address = address;
  fresh.is_launcher = address.starts_with("launcher/");
  fresh.is_outside = address.starts_with("gateway/");
  cell_ids_.emplace(fresh.address, id);
  if (fresh.is_launcher) {
    const CellId node = cell("node/" + std::string(actors::id_of_address(address)));
    cells_[id].process = cells_[node].process;
  } else {
    cells_[id].process = process("of " + std::string(address));
    processes_[cells_[id].process].cells.insert(id);
  }
  return id;
}

ProcessId World::process(const std::string& name) {
  const auto [it, is_new] =
      process_ids_.try_emplace(name, static_cast<ProcessId>(processes_.size()));
  if (is_new) {
    processes_.emplace_back();
    processes_.back().name = name;
  }
  return it->second;
}

void World::live_in(const std::string& address, ProcessId process) {
  const CellId id = cell(address);
  processes_[cells_[id].process].cells.erase(id);
  cells_[id].process = process;
  processes_[process].cells.insert(id);
}

std::uint32_t World::take_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void World::push(std::int64_t wall_ms, std::uint32_t slot) {
  events_.push({std::max(wall_ms, wall_ms_), ++next_event_, slot});
}

void World::at(std::int64_t wall_ms, std::function<void()> what) {
  const std::uint32_t slot = take_slot();
  slots_[slot].kind = Kind::Call;
  slots_[slot].what = std::move(what);
  push(wall_ms, slot);
}

bool World::run_until(std::int64_t wall_ms, std::uint64_t steps_max) {
  for (std::uint64_t steps = 0; !events_.empty() && events_.top().wall_ms <= wall_ms; ++steps) {
    if (steps >= steps_max || stopped_) return false;
    const Event event = events_.top();
    events_.pop();
    wall_ms_ = event.wall_ms;
    ++counters_.steps;
    Slot slot = std::move(slots_[event.slot]);
    free_slots_.push_back(event.slot);
    switch (slot.kind) {
      case Kind::Message:
        if (!deliver(slot.from, slot.to, slot.envelope)) settle(slot.to);
        break;
      case Kind::Wake:
        wake(slot.to, slot.number);
        break;
      case Kind::Saved: {
        Process& process = processes_[slot.to];
        if (process.generation != slot.number) break;
        process.save_due = false;
        write_out(slot.to);
        break;
      }
      case Kind::Call:
        slot.what();
        break;
    }
    if (after_step) after_step();
  }
  wall_ms_ = std::max(wall_ms_, wall_ms);
  return !stopped_;
}

void World::put(std::string key, std::string kind, const google::protobuf::MessageLite& body) {
  v1::Record record;
  record.set_key(key);
  record.set_kind(std::move(kind));
  body.SerializeToString(record.mutable_body());
  put(std::move(record));
}

void World::put(v1::Record record) {
  if (on_save) on_save(record);
  std::string key = record.key();
  records_[std::move(key)] = std::move(record);
}

void World::save(v1::Record record, std::uint64_t epoch) {
  record.set_epoch(epoch);
  if (on_save) on_save(record);
  if (record.erased()) {
    records_.erase(record.key());
  } else {
    v1::Record& kept = records_[record.key()];
    kept = std::move(record);
  }
}

void World::boot(const std::string& address) { boot(cell(address)); }

void World::boot(CellId id) {
  Cell& cell = cells_[id];
  std::vector<v1::Record> own;
  const auto first = records_.find(cell.address);
  if (first != records_.end()) own.push_back(first->second);
  for (auto it = records_.lower_bound(cell.address + "#");
       it != records_.end() && it->first.starts_with(cell.address + "#"); ++it) {
    own.push_back(it->second);
  }
  // Records that were written before the world began are of epoch 1.
  cell.epoch = std::max<std::uint64_t>(2, cell.epoch + 1);
  Living living;
  living.epoch = cell.epoch;
  living.machine = actors::make_machine({cell.address, cell.epoch, tuning}, own);
  EBB_ASSERT(living.machine != nullptr);
  cell.living = std::move(living);
  actors::Effects effects;
  cell.living.machine->start(now_in(cell.process), effects);
  perform(id, cell.living.epoch, std::move(effects));
}

void World::crash(const std::string& address) { cells_[cell(address)].living = {}; }

bool World::alive(const std::string& address) const {
  const auto found = cell_ids_.find(address);
  return found != cell_ids_.end() && cells_[found->second].living.machine != nullptr;
}

void World::end_process(ProcessId id) {
  Process& process = processes_[id];
  process.up = false;
  process.paused = false;
  process.crash_at_save = 0;
  process.save_due = false;
  ++process.generation;
  process.saving.clear();
  process.held.clear();
  for (const CellId cell : process.cells) cells_[cell].living = {};
}

void World::crash_process(ProcessId id) { end_process(id); }

void World::boot_process(ProcessId id) {
  if (processes_[id].up) end_process(id);
  processes_[id].up = true;
  const std::set<CellId> cells = processes_[id].cells;
  for (const CellId cell : cells) {
    if (!processes_[id].up) return;
    if (records_.count(cells_[cell].address) != 0) boot(cell);
  }
  for (ProcessId other = 0; other < processes_.size(); ++other) {
    if (other == id || !processes_[other].up) continue;
    at(wall_ms_ + kDirectoryMs, [this, other, generation = processes_[other].generation] {
      if (processes_[other].generation == generation) remind(other);
    });
  }
}

/// As the directory tells it: an owner elsewhere has changed.
void World::remind(ProcessId id) {
  Process& process = processes_[id];
  process.remind_due = process.paused;
  if (!process.up || process.paused) return;
  const std::uint64_t generation = process.generation;
  const std::set<CellId> cells = process.cells;
  for (const CellId cell : cells) {
    if (process.generation != generation) return;
    Living& living = cells_[cell].living;
    if (!living.machine) continue;
    actors::Effects effects;
    living.machine->remind(now_in(id));
    living.machine->settle(now_in(id), effects);
    perform(cell, living.epoch, std::move(effects));
  }
}

void World::pause(ProcessId id) { processes_[id].paused = true; }

void World::resume(ProcessId id) {
  Process& process = processes_[id];
  if (!process.paused) return;
  process.paused = false;
  const std::uint64_t generation = process.generation;
  auto held = std::exchange(process.held, {});
  for (auto& [to, envelope] : held) {
    if (process.generation != generation) return;
    handle(to, *envelope);
  }
  const std::set<CellId> cells = process.cells;
  for (const CellId cell : cells) {
    if (process.generation != generation) return;
    Living& living = cells_[cell].living;
    if (!living.machine || !std::exchange(living.overdue, false)) continue;
    actors::Effects effects;
    living.machine->wake(now_in(id), effects);
    perform(cell, living.epoch, std::move(effects));
  }
  if (process.generation != generation) return;
  if (process.remind_due) remind(id);
  if (process.generation == generation) write_out(id);
}

void World::take_over(ProcessId id) {
  Process& process = processes_[id];
  if (!process.paused) return;
  Zombie zombie;
  zombie.held = std::exchange(process.held, {});
  for (const CellId cell : process.cells) {
    if (cells_[cell].living.machine) zombie.machines.emplace(cell, std::move(cells_[cell].living));
  }
  process.zombies.push_back(std::move(zombie));
  boot_process(id);
}

/// Each handles what had arrived. Whatever it wants to save is refused, as the first thing of its
/// batch: nothing of that is said, and the process ends.
void World::wake_zombie(ProcessId id) {
  std::vector<Zombie> zombies = std::exchange(processes_[id].zombies, {});
  for (Zombie& zombie : zombies) {
    bool lives = true;
    const auto carry_out = [&](CellId cell, Living& living, actors::Effects effects) {
      Batch batch{cell, living.epoch, std::move(effects), false};
      const bool saves = !batch.effects.saves.empty() || !batch.effects.births.empty();
      if (saves && living.epoch != cells_[cell].epoch && !EBB_PLANTED(old_epoch_saves)) {
        ++counters_.deposed;
        lives = false;
        return;
      }
      batch.effects.wake_at_mono_ms.reset();
      const bool up = processes_[id].up;
      release(id, std::move(batch));
      lives = processes_[id].up == up;
    };
    for (auto& [to, envelope] : zombie.held) {
      const auto found = zombie.machines.find(to);
      if (!lives || found == zombie.machines.end()) continue;
      actors::Effects effects;
      found->second.machine->handle(*envelope, now_in(id), effects);
      if (!effects.ended) found->second.machine->settle(now_in(id), effects);
      carry_out(to, found->second, std::move(effects));
    }
    for (auto& [cell, living] : zombie.machines) {
      if (!lives) break;
      actors::Effects effects;
      living.machine->wake(now_in(id), effects);
      carry_out(cell, living, std::move(effects));
    }
  }
}

void World::set_disk_full(ProcessId id, bool full) {
  processes_[id].disk_full = full;
  if (!full) write_out(id);
}

void World::wake(CellId id, std::uint64_t number) {
  Living& living = cells_[id].living;
  if (!living.machine || living.wake != number) return;
  const ProcessId process = cells_[id].process;
  if (processes_[process].paused) {
    living.overdue = true;
    return;
  }
  actors::Effects effects;
  living.machine->wake(now_in(process), effects);
  perform(id, living.epoch, std::move(effects));
}

void World::perform(CellId id, std::uint64_t epoch, actors::Effects effects, bool asked) {
  const ProcessId home = cells_[id].process;
  Process& process = processes_[home];
  Batch batch{id, epoch, std::move(effects), asked};
  const bool saves = !batch.effects.saves.empty() || !batch.effects.births.empty();
  // What saves nothing only keeps its place behind what does.
  if (process.saving.empty() && !process.disk_full && (!saves || process.save_ms == 0)) {
    release(home, std::move(batch));
    return;
  }
  process.saving.push_back(std::move(batch));
  if (process.save_due || process.disk_full) return;
  process.save_due = true;
  const std::uint32_t slot = take_slot();
  slots_[slot] = {Kind::Saved, 0, home, process.generation, nullptr, nullptr};
  push(wall_ms_ + process.save_ms, slot);
}

void World::write_out(ProcessId id) {
  Process& process = processes_[id];
  const std::uint64_t generation = process.generation;
  // What is added while this is released belongs to the next write.
  for (std::size_t left = process.saving.size();
       left > 0 && process.generation == generation && !process.disk_full && !process.paused;
       --left) {
    Batch batch = std::move(process.saving.front());
    process.saving.pop_front();
    if (!release(id, std::move(batch))) return;
  }
  if (process.generation != generation || process.saving.empty() || process.disk_full ||
      process.paused || process.save_due) {
    return;
  }
  process.save_due = true;
  const std::uint32_t slot = take_slot();
  slots_[slot] = {Kind::Saved, 0, id, process.generation, nullptr, nullptr};
  push(wall_ms_ + process.save_ms, slot);
}

bool World::release(ProcessId home, Batch batch) {
  actors::Effects& effects = batch.effects;
  Process& process = processes_[home];
  const std::uint64_t generation = process.generation;
  const bool saves = !effects.saves.empty() || !effects.births.empty();
  if (saves && process.crash_at_save == 1) {
    end_process(home);
    if (on_process_end) on_process_end(home);
    return false;
  }
  std::vector<CellId> born;
  if (saves) ++counters_.saves;
  for (v1::Record& record : effects.saves) save(std::move(record), batch.epoch);
  for (v1::Record& record : effects.births) {
    const CellId child = cell(record.key());
    live_in(record.key(), cells_[batch.cell].process);
    born.push_back(child);
    save(std::move(record), batch.epoch);
  }
  if (saves && process.crash_at_save == 2) {
    end_process(home);
    if (on_process_end) on_process_end(home);
    return false;
  }
  const std::string& address = cells_[batch.cell].address;
  if (on_decision) {
    for (const std::string& line : effects.decisions) on_decision(address, line);
    for (const std::string& line : effects.alarms) on_decision(address, "alarm: " + line);
  }
  for (v1::Envelope& envelope : effects.sends) {
    envelope.set_from(address);
    envelope.set_from_epoch(batch.epoch);
    if (batch.asked && asked_ != nullptr && envelope.to() == kAsker) {
      *asked_ = envelope.reply();
    } else {
      post(std::make_shared<v1::Envelope>(std::move(envelope)), batch.cell);
    }
  }
  Living& living = cells_[batch.cell].living;
  if (living.epoch == batch.epoch) {
    if (effects.wake_at_mono_ms && living.machine) {
      living.wake = ++next_wake_;
      const std::uint32_t slot = take_slot();
      slots_[slot] = {Kind::Wake, 0, batch.cell, living.wake, nullptr, nullptr};
      push(*effects.wake_at_mono_ms + mono_offset_, slot);
    }
    if (effects.ended) living = {};
  }
  for (const CellId child : born) {
    if (process.generation != generation) return false;
    boot(child);
  }
  return process.generation == generation;
}

void World::post(v1::Envelope envelope) {
  const CellId from = cell(envelope.from());
  post(std::make_shared<v1::Envelope>(std::move(envelope)), from);
}

void World::post(EnvelopePtr envelope, CellId from) {
  ++counters_.sent;
  envelope->set_message_id(++next_message_);
  const CellId to = cell(envelope->to());
  waits_.assign(1, kLatencyMs);
  // Launchers share their node's process: what passes between the two is neither lost nor doubled.
  const bool inside = cells_[from].is_launcher || cells_[to].is_launcher;
  if (!inside && on_post) on_post(envelope, &waits_);
  for (const std::int64_t wait : waits_) send(envelope, from, to, wait);
}

void World::post_again(EnvelopePtr envelope, std::int64_t wait_ms) {
  const CellId from = cell(envelope->from()), to = cell(envelope->to());
  send(envelope, from, to, wait_ms);
}

void World::send(const EnvelopePtr& envelope, CellId from, CellId to, std::int64_t wait_ms) {
  const std::uint32_t slot = take_slot();
  slots_[slot] = {Kind::Message, from, to, 0, envelope, nullptr};
  const bool inside = cells_[from].is_launcher || cells_[to].is_launcher;
  push(wall_ms_ + wait_ms + (inside ? 0 : processes_[cells_[to].process].slow_ms), slot);
}

/// False: it did not reach a machine.
bool World::deliver(CellId from, CellId to, const EnvelopePtr& envelope) {
  const Cell& sender = cells_[from];
  const Cell& receiver = cells_[to];
  const bool inside = sender.is_launcher || receiver.is_launcher;
  if (!inside) {
    const bool cut =
        sender.is_cut || receiver.is_cut ||
        (passes && sender.process != receiver.process && !passes(sender.process, receiver.process));
    if (cut) {
      ++counters_.cut;
      return false;
    }
  }
  ++counters_.delivered;
  mix(static_cast<std::uint64_t>(wall_ms_) << 20 ^ to);
  mix(word_of(*envelope));
  if (on_delivered) on_delivered(*envelope);
  if (receiver.is_launcher) {
    launcher(std::string(actors::id_of_address(receiver.address))).handle(envelope->launcher());
    return false;
  }
  if (receiver.is_outside) {
    if (on_outside) on_outside(*envelope);
    return false;
  }
  Process& process = processes_[receiver.process];
  if (process.paused) {
    process.held.emplace_back(to, envelope);
    return false;
  }
  if (process.disk_full && sender.is_outside) {  // as the host does it
    v1::Envelope answer;
    answer.set_from(envelope->to());
    answer.set_to(envelope->from());
    answer.set_correlation_id(envelope->correlation_id());
    answer.mutable_reply()->mutable_refusal()->set_code("StoreFull");
    post(std::move(answer));
    return false;
  }
  if (on_deliver) {
    v1::Envelope changed = *envelope;
    on_deliver(changed);
    handle(to, changed);
    return true;
  }
  handle(to, *envelope);
  return true;
}

void World::handle(CellId to, const v1::Envelope& envelope) {
  Living& living = cells_[to].living;
  if (!living.machine) {
    ++counters_.nobody;
    return;
  }
  const Instant now = now_in(cells_[to].process);
  living.machine->handle(envelope, now, living.taken_in);
  if (!living.taken_in.ended) {
    // Messages of one moment are taken in together, as the shell does it with its mailbox.
    const bool more = !events_.empty() && events_.top().wall_ms == wall_ms_ &&
                      slots_[events_.top().slot].kind == Kind::Message &&
                      slots_[events_.top().slot].to == to;
    if (more && !processes_[cells_[to].process].paused) {
      living.unsettled = true;
      return;
    }
    living.machine->settle(now, living.taken_in);
  }
  living.unsettled = false;
  perform(to, living.epoch, std::exchange(living.taken_in, {}));
}

/// The message that was to come with the last one did not reach the machine.
void World::settle(CellId id) {
  Living& living = cells_[id].living;
  if (!living.machine || !std::exchange(living.unsettled, false)) return;
  living.machine->settle(now_in(cells_[id].process), living.taken_in);
  perform(id, living.epoch, std::exchange(living.taken_in, {}));
}

v1::Reply World::ask_now(v1::Envelope envelope) {
  v1::Reply reply;
  const CellId to = cell(envelope.to());
  Living& living = cells_[to].living;
  if (!living.machine) return reply;
  envelope.set_from(kAsker);
  actors::Effects effects;
  living.machine->handle(envelope, now_in(cells_[to].process), effects);
  if (!effects.ended) living.machine->settle(now_in(cells_[to].process), effects);
  asked_ = &reply;
  perform(to, living.epoch, std::move(effects), true);
  asked_ = nullptr;
  return reply;
}

void World::cut(const std::string& address, bool is_cut) { cells_[cell(address)].is_cut = is_cut; }

Launcher& World::launcher(const std::string& node) {
  std::unique_ptr<Launcher>& launcher = launchers_[node];
  if (!launcher) launcher = std::make_unique<Launcher>(*this, node);
  return *launcher;
}

Program& World::program(const std::string& workload, std::uint32_t index) {
  return programs_[{workload, index}];
}

void World::started(const PodId& id, const std::string& node) {
  if (on_start) on_start(id, node);
}

void World::ended(const PodId& id, const std::string& node) {
  if (on_end) on_end(id, node);
}

}  // namespace ebb::sim
