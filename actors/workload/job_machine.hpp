// A training job: one claim, a gang of pods that start together. Its states, as the API spells
// them:
//
//   Queuing --Placed--> EnvPreparing --Started--> Running --all ended well--> Succeeded
//      ^                                             |  \--a pod failed, no restart left--> Failed
//      |--preempted (SubStatus Resource Preempted)---|
//      Restarting <--a pod failed, restarts left-----+          any --stop--> Stopping --> Stopped
//
// Source: api/NOTES.md "Jobs"; scheduling/restart decides what an ended pod means.
#pragma once
#include "actors/workload/workload_machine.hpp"

namespace ebb::actors {

class JobMachine final : public WorkloadMachine {
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

  bool ended_well(const ClaimHappening& over) const;
  void pod_ended(ClaimRunner& runner, const ClaimHappening& ended, Instant now, Effects& effects);
  void end(const std::string& status, const std::string& code, const std::string& message,
           Instant now, Effects& effects);
  const v1::RoleSpec& role_of(std::uint32_t pod) const;
  bool is_final() const;
};

}  // namespace ebb::actors
