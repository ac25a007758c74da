// A machine is one actor as a plain class: a message in, effects out. It knows no CAF, socket,
// clock, file or random number. A shell (actors/shell in production, sim/ in simulation) runs it
// and carries out its effects in the order save, send, wake. Effects of one call are one unit:
// nothing is sent before everything it saved is durable.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/instant.hpp"
#include "base/result.hpp"
#include "ebb/v1/envelope.pb.h"

namespace ebb::actors {

/// Settings of the cluster that machines go by; the same for all of them.
struct Tuning {
  std::int64_t node_lost_after_ms = 300'000;  // silence after which a node counts as lost
  std::int64_t stop_after_ms = 600'000;       // of jobs with automatic fault tolerance
  std::int64_t beat_ms = 2'000;               // a node says something this often
};

/// What a machine is told at birth.
struct Context {
  std::string address;      // its own, for instance "quota/q1"
  std::uint64_t epoch = 1;  // of its shard's owner; first half of every stamp it makes
  Tuning tuning = {};
};

struct Effects {
  std::vector<v1::Record> saves;
  /// Records of actors to be born: saved with `saves`, then each is built from its record and
  /// started.
  std::vector<v1::Record> births;
  std::vector<v1::Envelope> sends;
  std::vector<std::string>
      decisions;                    // one line each for log and audit: `evict claim=... reason=...`
  std::vector<std::string> alarms;  // an operator should look
  std::optional<std::int64_t> wake_at_mono_ms;  // replaces the machine's former wake-up
  bool ended = false;  // the actor is over: its records are erased by `saves`, forget it

  void save(std::string key, std::string kind, const google::protobuf::MessageLite& body);
  void erase(std::string key, std::string kind);
  void create(std::string address, std::string kind, const google::protobuf::MessageLite& body);
  /// `to`: address. The shell fills from, epochs and message id.
  v1::Envelope& send(std::string to);
  void reply(const v1::Envelope& request, v1::Reply reply);
  void refuse(const v1::Envelope& request, const Refusal& refusal);
  void decide(std::string line) { decisions.push_back(std::move(line)); }
  void alarm(std::string line) { alarms.push_back(std::move(line)); }
  /// Wakes no later than this; several calls keep the earliest.
  void wake_at(std::int64_t mono_ms);
};

class Machine {
 public:
  virtual ~Machine() = default;
  /// Once, after birth and after every rebuild from records: repeat to the neighbours, arm timers.
  virtual void start(Instant now, Effects& effects) = 0;
  /// Takes one message in. What follows from it may wait for `settle`.
  virtual void handle(const v1::Envelope& envelope, Instant now, Effects& effects) = 0;
  /// Decides what follows from all that was taken in since the last time, and says what is due.
  /// Called after one `handle`, or after several: what many messages change is decided once.
  virtual void settle(Instant, Effects&) {}
  /// A machine elsewhere has come up under a new epoch (its process was started again or taken
  /// over) and has forgotten what was not saved. Says again what such a neighbour would not ask
  /// for; `settle` follows. The shell calls it on every machine when the owner of another shard
  /// changes.
  virtual void remind(Instant) {}
  /// The wake-up it armed has come.
  virtual void wake(Instant now, Effects& effects) = 0;
};

/// "quota/q1#job/d1/0" -> "quota/q1".
std::string_view address_of_key(std::string_view key);
/// "quota/q1" -> "quota"; "tenant" -> "tenant".
std::string_view kind_of_address(std::string_view address);
/// "quota/q1" -> "q1".
std::string_view id_of_address(std::string_view address);

/// Builds the machine of `context.address` from its records: its own first, then its parts. Null
/// for an unknown kind or when the record cannot be read.
std::unique_ptr<Machine> make_machine(const Context& context,
                                      const std::vector<v1::Record>& records);

}  // namespace ebb::actors
