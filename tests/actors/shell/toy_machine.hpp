// A machine for tests of the shell: it does what the command says, and nothing of Ebb's.
//
//   scale N      keeps N, saves it, tells "sink", answers N
//   describe     answers the N it keeps
//   start        keeps 999, wants to save it, and throws
//   stop         gives birth to job/child with N = 7, tells "sink" and answers
//   remove       ends
//   set_cron     wakes after as many milliseconds as the cron has jobs; a wake-up tells "sink"
//   delete_cron  tells "sink" 1 and saves nothing
// At its start it tells "sink" the N it was built with. A message to sink is a
// TenantInbox{delete_root: TEXT}.
#pragma once
#include <stdexcept>

#include "actors/machine.hpp"

namespace ebb::tests {

class ToyMachine : public actors::Machine {
 public:
  ToyMachine(const actors::Context& context, const std::vector<v1::Record>& records)
      : address_(context.address), epoch_(context.epoch) {
    kept_ = std::stoi(records.at(0).body());
  }
  void start(Instant, actors::Effects& effects) override { tell(effects, "start"); }
  void wake(Instant, actors::Effects& effects) override { tell(effects, "wake"); }
  void handle(const v1::Envelope& envelope, Instant now, actors::Effects& effects) override {
    const v1::WorkloadCommand& command = envelope.workload().command();
    switch (command.command_case()) {
      case v1::WorkloadCommand::kScale:
        kept_ = static_cast<int>(command.scale());
        effects.saves.push_back(record(address_, kept_));
        effects.decide("keep n=" + std::to_string(kept_));
        tell(effects, "scale");
        break;
      case v1::WorkloadCommand::kStart:
        kept_ = 999;
        effects.saves.push_back(record(address_, kept_));
        throw std::runtime_error("as told");
      case v1::WorkloadCommand::kStop:
        effects.births.push_back(record("job/child", 7));
        tell(effects, "stop");
        break;
      case v1::WorkloadCommand::kRemove:
        effects.erase(address_, "Toy");
        effects.ended = true;
        break;
      case v1::WorkloadCommand::kSetCron:
        effects.wake_at(now.mono_ms + command.set_cron().jobs_size());
        break;
      case v1::WorkloadCommand::kDeleteCron:
        tell(effects, "delete_cron");
        break;
      default:
        break;
    }
    if (envelope.correlation_id().empty()) return;
    v1::Reply reply;
    reply.set_id(std::to_string(kept_));
    effects.reply(envelope, std::move(reply));
  }
  static v1::Record record(const std::string& address, int kept) {
    v1::Record record;
    record.set_key(address);
    record.set_kind("Toy");
    record.set_body(std::to_string(kept));
    return record;
  }

 private:
  void tell(actors::Effects& effects, const std::string& what) {
    effects.send("sink").mutable_tenant()->mutable_command()->set_delete_root(
        address_ + " " + what + " " + std::to_string(kept_));
  }
  const std::string address_;
  const std::uint64_t epoch_;
  int kept_ = 0;
};

}  // namespace ebb::tests
