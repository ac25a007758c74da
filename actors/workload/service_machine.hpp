// An inference service: one claim a replica, each placed and replaced for itself; scaled by command
// and by the clock.
//
// Units: cron times are moments of the cluster's wall clock. Errors: refusals to commands.
// Source: api/NOTES.md "Services"; scheduling/cron.
#pragma once
#include "actors/workload/workload_machine.hpp"

namespace ebb::actors {

class ServiceMachine final : public WorkloadMachine {
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

  std::int64_t fire_cron(Instant now, Effects& effects);
  void set_replicas(std::uint32_t replicas, const std::string& why, Instant now, Effects& effects);
  void match_replicas(Instant now);
  std::uint32_t wanted_now() const { return record_.stopping() ? 0 : record_.replicas_wanted(); }

  std::map<std::uint32_t, int> failures_;  // in a row, by replica
  std::int64_t scaled_wall_ms_ = 0;
  bool all_running_told_ = true;
};

}  // namespace ebb::actors
