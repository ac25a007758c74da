// A development machine for one person: one claim of one pod, started and stopped by its owner.
//
//   Queuing --Placed--> EnvPreparing --Started--> Running --stop--> Stopping --> Stopped --start-->
//   Queuing
//                                                    \--its process ended--> Failed (may be started
//                                                    again)
//
// Source: api/NOTES.md "Development instances".
#pragma once
#include "actors/workload/workload_machine.hpp"

namespace ebb::actors {

class InstanceMachine final : public WorkloadMachine {
 public:
  using WorkloadMachine::WorkloadMachine;

 private:
  void begin(Instant now, Effects& effects) override;
  void on(ClaimRunner& runner, const ClaimHappening& happening, Instant now,
          Effects& effects) override;
  std::int64_t decide(Instant now, Effects& effects) override;
  void command(const v1::WorkloadCommand& command, const v1::Envelope& envelope, Instant now,
               Effects& effects) override;
  bool at_rest() const override;
};

}  // namespace ebb::actors
