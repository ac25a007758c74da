// Carries out a plan's faults: crashes, pauses, zombies, slow and full disks, clocks, partitions,
// agents and whole nodes. `heal` ends them all and brings everything up again.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>

#include "sim/soak/network.hpp"
#include "sim/soak/plan.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {

class Mishaps {
 public:
  Mishaps(const Plan& plan, World& world, Network& network);
  void begin();
  void heal();
  const std::array<std::uint64_t, kFaultKinds>& counts() const { return counts_; }
  std::function<void(const std::string&)> on_fault;

 private:
  void happen(const FaultPlan& fault);
  void crash(ProcessId process, std::int64_t for_ms);
  void pause(ProcessId process, std::int64_t for_ms, bool taken_over);
  void cut(ProcessId a, ProcessId b, bool both, std::int64_t for_ms);
  void flap(ProcessId a, ProcessId b, std::int64_t every_ms, int times);
  void reboot(const std::string& node);
  void later(std::int64_t after_ms, std::function<void()> what);

  const Plan& plan_;
  World& world_;
  Network& network_;
  bool healed_ = false;
  std::vector<ProcessId> schedulers_, agents_, all_;
  std::array<std::uint64_t, kFaultKinds> counts_{};
};

}  // namespace ebb::sim
