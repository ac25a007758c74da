// The simulated world: the very machines of actors/ under virtual time, an in-memory store and a
// post office with faults. One seed, one course of events.
//
// Unit: milliseconds; wall and mono differ by a constant, plus a skew of each process's wall clock.
// Effects are carried out in the order save, send, wake (actors/machine.hpp). A machine that is
// built again gets a higher epoch; a save under a lower one is refused and ends the process that
// asked for it (R5). Nothing is iterated in an order that depends on memory.
//
// Machines live in processes. A process crashes, pauses and wakes as a whole; its saves become
// durable in the order in which they were made, together with what was said (as
// actors/shell/save_queue does it). A machine that was given no process has one of its own.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/machine.hpp"
#include "sim/world/launcher.hpp"
#include "sim/world/random.hpp"

namespace ebb::sim {

using EnvelopePtr = std::shared_ptr<v1::Envelope>;
using ProcessId = std::uint32_t;

struct Counters {
  std::uint64_t steps = 0;
  std::uint64_t sent = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;
  std::uint64_t doubled = 0;
  std::uint64_t replayed = 0;
  std::uint64_t delayed = 0;
  std::uint64_t cut = 0;      // by a partition
  std::uint64_t nobody = 0;   // the receiver was not there
  std::uint64_t saves = 0;    // batches made durable
  std::uint64_t deposed = 0;  // batches refused for their epoch
};

class World {
 public:
  /// Begins at `begin_wall_ms`.
  World(std::uint64_t seed, std::int64_t begin_wall_ms);

  Instant now() const;
  void at(std::int64_t wall_ms, std::function<void()> what);
  /// Plays all events up to and including `wall_ms`. False when there were more than `steps_max` or
  /// it was stopped.
  bool run_until(std::int64_t wall_ms, std::uint64_t steps_max = 20'000'000);
  void stop() { stopped_ = true; }

  /// Writes a record as if it had been saved before.
  void put(std::string key, std::string kind, const google::protobuf::MessageLite& body);
  void put(v1::Record record);
  const std::map<std::string, v1::Record>& records() const { return records_; }
  template <class M>
  bool read(const std::string& key, M* out) const {
    const auto found = records_.find(key);
    return found != records_.end() && out->ParseFromString(found->second.body());
  }
  /// Builds the machine from its records under the next epoch and starts it; one that was alive is
  /// forgotten with all that it had not saved.
  void boot(const std::string& address);
  void crash(const std::string& address);
  bool alive(const std::string& address) const;

  // Processes.
  ProcessId process(const std::string& name);
  const std::string& name_of(ProcessId process) const { return processes_.at(process).name; }
  ProcessId process_of(const std::string& address) { return cells_[cell(address)].process; }
  void live_in(const std::string& address, ProcessId process);
  bool is_up(ProcessId process) const { return processes_.at(process).up; }
  /// What was not saved is lost, and nothing of it is said.
  void crash_process(ProcessId process);
  /// Builds every machine that lives in it and has a record. The other processes hear of it.
  void boot_process(ProcessId process);
  /// At its next save: before it becomes durable, or after, before anything is said.
  void crash_at_save(ProcessId process, bool before) {
    processes_.at(process).crash_at_save = before ? 1 : 2;
  }
  void clear_crash_at_save(ProcessId process) { processes_.at(process).crash_at_save = 0; }
  /// It handles nothing; what arrives waits.
  void pause(ProcessId process);
  void resume(ProcessId process);
  /// Of a paused process: its machines are built anew under higher epochs. The paused ones wake
  /// with `wake_zombie`, handle what had arrived, and end at their first save.
  void take_over(ProcessId process);
  void wake_zombie(ProcessId process);
  /// While full: saves wait, and with them all that follows; commands are refused.
  void set_disk_full(ProcessId process, bool full);
  /// How long a save takes.
  void set_save_ms(ProcessId process, std::int64_t ms) { processes_.at(process).save_ms = ms; }
  /// Every message to it waits so much longer.
  void set_slow(ProcessId process, std::int64_t ms) { processes_.at(process).slow_ms = ms; }
  void set_clock_skew(ProcessId process, std::int64_t ms) { processes_.at(process).skew_ms = ms; }

  void post(v1::Envelope envelope);
  /// Delivers a copy of what was sent before, after `wait_ms`.
  void post_again(EnvelopePtr envelope, std::int64_t wait_ms);
  /// Handled at once, past the post office. Empty reply if nobody answers at once.
  v1::Reply ask_now(v1::Envelope envelope);
  /// Nothing passes to or from it while it is cut off.
  void cut(const std::string& address, bool is_cut);

  Launcher& launcher(const std::string& node);
  const std::map<std::string, std::unique_ptr<Launcher>>& launchers() const { return launchers_; }
  Program& program(const std::string& workload, std::uint32_t index);
  void started(const PodId& id, const std::string& node);
  void ended(const PodId& id, const std::string& node);

  Counters& counters() { return counters_; }
  /// Of everything that was delivered, in order.
  std::uint64_t hash() const { return hash_; }

  /// Fate of a message between two machines: one delivery for each entry of `waits`, after so many
  /// milliseconds. It comes with one entry, the latency. Unset: every message arrives once.
  std::function<void(const EnvelopePtr&, std::vector<std::int64_t>* waits)> on_post;
  /// Whether a message passes between two processes now.
  std::function<bool(ProcessId from, ProcessId to)> passes;
  actors::Tuning tuning;  // of machines that are booted from now on
  std::function<void(v1::Envelope&)> on_deliver;  // may change what arrives
  std::function<void(const v1::Envelope&)> on_delivered;
  std::function<void(const v1::Record&)> on_save;
  std::function<void(const PodId&, const std::string& node)> on_start;
  std::function<void(const PodId&, const std::string& node)> on_end;
  std::function<void()> after_step;
  std::function<void(const v1::Envelope&)> on_outside;  // to "gateway/..."
  std::function<void(const std::string& address, const std::string& line)> on_decision;
  std::function<void(ProcessId)> on_process_end;  // it crashed at a save or was deposed

 private:
  using CellId = std::uint32_t;
  enum class Kind : std::uint8_t { Message, Wake, Saved, Call };
  struct Event {
    std::int64_t wall_ms;
    std::uint64_t number;
    std::uint32_t slot;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.wall_ms != b.wall_ms ? a.wall_ms > b.wall_ms : a.number > b.number;
    }
  };
  struct Slot {
    Kind kind = Kind::Call;
    CellId from = 0, to = 0;
    std::uint64_t number = 0;  // of the wake-up, or generation of the process
    EnvelopePtr envelope;
    std::function<void()> what;
  };
  struct Living {
    std::unique_ptr<actors::Machine> machine;
    std::uint64_t epoch = 0;
    std::uint64_t wake = 0;  // number of the latest wake-up
    bool overdue = false;    // it came while the process was paused
    bool unsettled = false;  // it has taken messages in and not decided what follows
    actors::Effects taken_in;
  };
  struct Cell {
    std::string address;
    ProcessId process = 0;
    Living living;
    bool is_launcher = false, is_outside = false, is_cut = false;
    std::uint64_t epoch = 0;  // highest ever given
  };
  struct Batch {
    CellId cell = 0;
    std::uint64_t epoch = 0;
    actors::Effects effects;
    bool asked = false;
  };
  struct Zombie {
    std::map<CellId, Living> machines;
    std::vector<std::pair<CellId, EnvelopePtr>> held;
  };
  struct Process {
    std::string name;
    std::set<CellId> cells;
    bool up = true, paused = false, disk_full = false, save_due = false, remind_due = false;
    int crash_at_save = 0;
    std::int64_t save_ms = 0, slow_ms = 0, skew_ms = 0;
    std::uint64_t generation = 0;
    std::deque<Batch> saving;
    std::vector<std::pair<CellId, EnvelopePtr>> held;
    std::vector<Zombie> zombies;
  };

  CellId cell(std::string_view address);
  std::uint32_t take_slot();
  void push(std::int64_t wall_ms, std::uint32_t slot);
  void send(const EnvelopePtr& envelope, CellId from, CellId to, std::int64_t wait_ms);
  void post(EnvelopePtr envelope, CellId from);
  bool deliver(CellId from, CellId to, const EnvelopePtr& envelope);
  void settle(CellId id);
  void handle(CellId to, const v1::Envelope& envelope);
  void wake(CellId id, std::uint64_t number);
  Instant now_in(ProcessId process) const;
  void perform(CellId id, std::uint64_t epoch, actors::Effects effects, bool asked = false);
  void write_out(ProcessId process);
  /// False: the process is no more.
  bool release(ProcessId process, Batch batch);
  void save(v1::Record record, std::uint64_t epoch);
  void boot(CellId id);
  void end_process(ProcessId process);
  void remind(ProcessId process);
  void mix(std::uint64_t word) { hash_ = (hash_ ^ word) * 0x100000001b3ull; }

  Random random_;
  std::int64_t wall_ms_;
  const std::int64_t mono_offset_;
  bool stopped_ = false;
  std::uint64_t next_event_ = 0;
  std::uint64_t next_message_ = 0;
  std::uint64_t next_wake_ = 0;
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::map<std::string, v1::Record> records_;
  std::deque<Cell> cells_;
  std::unordered_map<std::string_view, CellId> cell_ids_;  // looked up, never iterated
  std::deque<Process> processes_;
  std::map<std::string, ProcessId> process_ids_;
  std::map<std::string, std::unique_ptr<Launcher>> launchers_;
  std::map<std::pair<std::string, std::uint32_t>, Program> programs_;
  v1::Reply* asked_ = nullptr;
  std::vector<std::int64_t> waits_;
  Counters counters_;
};

}  // namespace ebb::sim
