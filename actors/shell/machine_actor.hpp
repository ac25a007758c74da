// The one actor behind every machine. It holds no rule of its own: it brings messages and wake-ups
// to the machine and hands what comes out to its Outside.
#pragma once
#include <atomic>
#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <memory>
#include <string>

#include "actors/machine.hpp"
#include "cluster/link/link.hpp"

namespace ebb::actors {

/// A machine's place in this process, shared by its actor, the directory and what is on its way.
struct Cell {
  std::string address;
  caf::actor actor;
  /// Batches handed on and not yet released. While there are any, what follows has to queue behind
  /// them.
  std::atomic<int> held = 0;
};
using CellPtr = std::shared_ptr<Cell>;
using MachinePtr = std::shared_ptr<Machine>;

/// What an actor needs from its host.
class Outside {
 public:
  virtual ~Outside() = default;
  virtual Instant now() const = 0;
  virtual void perform(const CellPtr& cell, Effects effects) = 0;
  virtual void wake_later(const CellPtr& cell, std::int64_t mono_ms) = 0;
  /// The machine threw. It will be built anew from its records and come back by `restore`, if the
  /// process goes on.
  virtual void failed(const CellPtr& cell, const std::string& why) = 0;
  virtual void refuse(const v1::Envelope& envelope, const Refusal& refusal) = 0;
};

/// Spawns the actor of `cell`. It does nothing before start_actor().
void spawn_actor(caf::actor_system& system, const CellPtr& cell, MachinePtr machine,
                 Outside& outside);
void start_actor(const CellPtr& cell);
void tell_actor(const CellPtr& cell, cluster::EnvelopePtr envelope);
void wake_actor(const CellPtr& cell, std::int64_t mono_ms);
/// Instead of a machine that failed: it is started, then gets what has come meanwhile.
void restore_actor(const CellPtr& cell, MachinePtr machine);
void end_actor(const CellPtr& cell);

}  // namespace ebb::actors
