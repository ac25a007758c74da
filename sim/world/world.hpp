// The simulated world: the very machines of actors/ under virtual time, an in-memory store and a
// post office with seeded faults. One seed, one course of events.
//
// Unit: milliseconds; wall and mono differ by a constant. Effects are carried out in the order
// save, send, wake (actors/machine.hpp). A crashed machine is rebuilt from its records with a
// higher epoch. Nothing is iterated in an order that depends on memory.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "actors/machine.hpp"
#include "sim/world/launcher.hpp"
#include "sim/world/random.hpp"

namespace ebb::sim {

/// What happens to envelopes between different addresses. Launchers share their node's process:
/// what passes between the two is neither lost nor doubled and keeps its order.
struct Faults {
  std::uint32_t drop_per_mille = 0;
  std::uint32_t double_per_mille = 0;
  std::int64_t delay_at_most_ms = 0;  // above the latency; reorders
};

struct Counters {
  std::uint64_t steps = 0;
  std::uint64_t sent = 0;
  std::uint64_t delivered = 0;
  std::uint64_t dropped = 0;
  std::uint64_t doubled = 0;
  std::uint64_t delayed = 0;
  std::uint64_t cut = 0;
};

class World {
 public:
  /// Begins at `begin_wall_ms`.
  World(std::uint64_t seed, std::int64_t begin_wall_ms, Faults faults = {});

  Instant now() const;
  void at(std::int64_t wall_ms, std::function<void()> what);
  /// Plays all events up to and including `wall_ms`. False when there were more than `steps_max`.
  bool run_until(std::int64_t wall_ms, std::uint64_t steps_max = 20'000'000);

  /// Writes a record as if it had been saved before.
  void put(std::string key, std::string kind, const google::protobuf::MessageLite& body);
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
  bool alive(const std::string& address) const { return machines_.count(address) != 0; }

  void post(v1::Envelope envelope);
  /// Handled at once, past the post office. Empty reply if nobody answers at once.
  v1::Reply ask_now(v1::Envelope envelope);
  /// Nothing passes to or from it while it is cut off.
  void cut(const std::string& address, bool is_cut);

  Launcher& launcher(const std::string& node);
  const std::map<std::string, std::unique_ptr<Launcher>>& launchers() const { return launchers_; }
  Program& program(const std::string& workload, std::uint32_t index);
  void started(const PodId& id);

  const Counters& counters() const { return counters_; }
  /// Of everything that was delivered, in order.
  std::uint64_t hash() const { return hash_; }

  std::function<void(v1::Envelope&)> on_deliver;  // may change what arrives
  std::function<void(const v1::Record&)> on_save;
  std::function<void(const PodId&)> on_start;
  std::function<void()> after_step;
  std::function<void(const v1::Envelope&)> on_outside;  // to "gateway/..."
  std::function<void(const std::string& address, const std::string& line)> on_decision;

 private:
  struct Event {
    std::int64_t wall_ms;
    std::uint64_t number;
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tie(a.wall_ms, a.number) > std::tie(b.wall_ms, b.number);
    }
  };
  struct Living {
    std::unique_ptr<actors::Machine> machine;
    std::uint64_t epoch = 0;
    std::uint64_t wake = 0;  // number of the latest wake-up
  };
  void deliver(v1::Envelope envelope);
  void perform(const std::string& address, actors::Effects effects);
  void save(v1::Record record, std::uint64_t epoch);
  void mix(std::string_view bytes);

  Random random_;
  std::int64_t wall_ms_;
  const std::int64_t mono_offset_;
  const Faults faults_;
  std::uint64_t next_event_ = 0;
  std::uint64_t next_message_ = 0;
  std::uint64_t next_wake_ = 0;
  std::uint64_t hash_ = 0xcbf29ce484222325ull;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::map<std::string, v1::Record> records_;
  std::map<std::string, std::uint64_t> epochs_;
  std::map<std::string, Living> machines_;
  std::set<std::string> cut_;
  std::map<std::string, std::unique_ptr<Launcher>> launchers_;
  std::map<std::pair<std::string, std::uint32_t>, Program> programs_;
  v1::Reply* asked_ = nullptr;
  Counters counters_;
};

}  // namespace ebb::sim
