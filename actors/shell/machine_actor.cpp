#include "actors/shell/machine_actor.hpp"

#include <algorithm>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <limits>
#include <utility>

#include "actors/shell/tsan.hpp"

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::cluster::EnvelopePtr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(ebb::actors::MachinePtr)

namespace ebb::actors {
namespace {

using StartAtom = caf::atom_constant<caf::atom("start")>;
using WakeAtom = caf::atom_constant<caf::atom("wake")>;
using SettleAtom = caf::atom_constant<caf::atom("settle")>;
using RestoreAtom = caf::atom_constant<caf::atom("restore")>;
constexpr std::int64_t kNeverMs = std::numeric_limits<std::int64_t>::max();

class MachineActor : public caf::event_based_actor {
 public:
  MachineActor(caf::actor_config& config, CellPtr cell, MachinePtr machine, Outside* outside)
      : caf::event_based_actor(config),
        cell_(std::move(cell)),
        machine_(std::move(machine)),
        outside_(outside) {}

  caf::behavior make_behavior() override {
    return {
        [this](const cluster::EnvelopePtr& envelope) {
          const InOrder in_order(cell_.get());
          receive(envelope);
        },
        [this](WakeAtom, std::int64_t mono_ms) {
          const InOrder in_order(cell_.get());
          wake(mono_ms);
        },
        [this](SettleAtom) {
          const InOrder in_order(cell_.get());
          settle();
        },
        [this](StartAtom) {
          const InOrder in_order(cell_.get());
          start();
        },
        [this](RestoreAtom, const MachinePtr& machine) {
          const InOrder in_order(cell_.get());
          restore(machine);
        },
    };
  }
  void on_exit() override {
    happens_after(cell_.get());
    machine_.reset();
    cell_.reset();
  }
  const char* name() const override { return "machine"; }

 private:
  void start() {
    started_ = true;
    run([this](Instant now) { machine_->start(now, effects_); });
    std::vector<cluster::EnvelopePtr> kept;
    kept.swap(kept_);
    for (const cluster::EnvelopePtr& envelope : kept) receive(envelope);
  }

  void receive(const cluster::EnvelopePtr& envelope) {
    if (ended_) return refuse(*envelope, {"NotFound", cell_->address + " is over", 404});
    if (!machine_ || !started_) return kept_.push_back(envelope);
    taken_in_.push_back(envelope);
    if (!call([&](Instant now) { machine_->handle(*envelope, now, effects_); })) return;
    if (effects_.ended) return perform();
    // Whatever is in the mailbox by now is taken in before this comes back.
    if (taken_in_.size() == 1) send(this, SettleAtom::value);
  }

  void settle() {
    if (taken_in_.empty()) return;  // done by a wake-up, or the machine failed meanwhile
    run([this](Instant now) { machine_->settle(now, effects_); });
  }

  void wake(std::int64_t mono_ms) {
    if (mono_ms == timer_at_) timer_at_ = kNeverMs;
    if (!machine_ || ended_ || wake_at_ == kNeverMs) return;
    if (wake_at_ > outside_->now().mono_ms) return arm();
    wake_at_ = kNeverMs;
    run([this](Instant now) { machine_->wake(now, effects_); });
  }

  void restore(const MachinePtr& machine) {
    machine_ = machine;
    start();
  }

  template <class Call>
  void run(Call&& what) {
    if (call(std::forward<Call>(what))) perform();
  }

  /// One call of the machine. False: it threw; nothing of what it wanted since the last settling
  /// is done. Records are repeated by who sent them, commands are told.
  template <class Call>
  bool call(Call&& what) {
    std::string why;
    try {
      what(outside_->now());
      return true;
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
      why = "something that is no std::exception";
    }
    machine_.reset();
    wake_at_ = kNeverMs;
    effects_ = {};
    const std::vector<cluster::EnvelopePtr> undone = std::exchange(taken_in_, {});
    outside_->failed(cell_, why);
    for (const cluster::EnvelopePtr& envelope : undone) {
      refuse(*envelope, {"InternalError", cell_->address + " failed on this message", 500});
    }
    return false;
  }

  void perform() {
    taken_in_.clear();
    Effects effects = std::exchange(effects_, {});
    ended_ = effects.ended;
    const auto wake_at = effects.wake_at_mono_ms;
    outside_->perform(cell_, std::move(effects));
    if (wake_at) {
      wake_at_ = *wake_at;
      arm();
    }
  }

  /// A pending timer that comes too early only looks again, so most changes of the wake-up need no
  /// new one.
  void arm() {
    if (wake_at_ >= timer_at_ || ended_) return;
    timer_at_ = wake_at_;
    outside_->wake_later(cell_, timer_at_);
  }

  void refuse(const v1::Envelope& envelope, const Refusal& refusal) {
    if (!envelope.correlation_id().empty() && !envelope.has_reply()) {
      outside_->refuse(envelope, refusal);
    }
  }

  CellPtr cell_;
  MachinePtr machine_;
  Outside* const outside_;
  Effects effects_;                             // since the last settling
  std::vector<cluster::EnvelopePtr> taken_in_;  // since then
  std::vector<cluster::EnvelopePtr> kept_;      // until the machine is started, or built anew
  std::int64_t wake_at_ = kNeverMs;             // wanted
  std::int64_t timer_at_ = kNeverMs;            // the earliest that is pending
  bool started_ = false;
  bool ended_ = false;
};

template <class... Parts>
void pass(const CellPtr& cell, Parts&&... parts) {
  if constexpr (kUnderTsan) {
    // In two steps, to state the order between the writing of the message and its passing on.
    caf::message message = caf::make_message(std::forward<Parts>(parts)...);
    happens_before(cell.get());
    caf::anon_send(cell->actor, std::move(message));
  } else {
    caf::anon_send(cell->actor, std::forward<Parts>(parts)...);
  }
}

}  // namespace

void spawn_actor(caf::actor_system& system, const CellPtr& cell, MachinePtr machine,
                 Outside& outside) {
  cell->actor = system.spawn<MachineActor>(cell, std::move(machine), &outside);
  happens_before(cell.get());
}
void start_actor(const CellPtr& cell) { pass(cell, StartAtom::value); }
void tell_actor(const CellPtr& cell, cluster::EnvelopePtr envelope) {
  pass(cell, std::move(envelope));
}
void wake_actor(const CellPtr& cell, std::int64_t mono_ms) { pass(cell, WakeAtom::value, mono_ms); }
void restore_actor(const CellPtr& cell, MachinePtr machine) {
  pass(cell, RestoreAtom::value, std::move(machine));
}
void end_actor(const CellPtr& cell) {
  happens_before(cell.get());
  caf::anon_send_exit(cell->actor, caf::exit_reason::user_shutdown);
}

}  // namespace ebb::actors
