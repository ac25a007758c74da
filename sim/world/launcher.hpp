// The launcher of one simulated node: its processes are the ground truth of what runs.
//
// Unit: milliseconds of virtual time. A process ends after its workload's length of work, is told
// to leave by SIGTERM (then saves a checkpoint if its workload has any and uses its whole grace),
// and is gone at once when killed. Source: node.proto, LauncherInbox; FORMAT.md.
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ebb/v1/node.pb.h"

namespace ebb::sim {

class World;

/// What the programs of one claim do, and how far they are. Kept in the checkpoint's place.
struct Program {
  std::int64_t runs_ms = 0;              // 0: for ever
  std::int64_t checkpoint_every_ms = 0;  // 0: none on its own
  std::int64_t saved_ms = 0;             // work in the last checkpoint
  std::int64_t lost_ms = 0;              // work done twice
  std::int64_t leaves_after_ms = 0;      // from SIGTERM; 0: it uses its whole grace
  bool saves_when_told = true;           // a checkpoint at SIGTERM
  int exit_code = 0;                     // at its own end
};

struct PodId {
  std::string workload;
  std::uint32_t index = 0;
  std::uint32_t attempt = 0;
  std::uint32_t pod = 0;
  friend auto operator<=>(const PodId&, const PodId&) = default;
};

struct Process {
  std::int64_t started_ms = 0;    // wall
  std::int64_t resumed_from = 0;  // work it began with
  std::int64_t told_ms = 0;       // wall, when it was told to leave; 0: not
  std::int64_t pid = 0;
  std::int64_t gpu_milli = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> gpus;  // number, thousandths
  int exit_code = 0;
};

class Launcher {
 public:
  Launcher(World& world, std::string node) : world_(world), node_(std::move(node)) {}
  void handle(const v1::LauncherInbox& inbox);
  /// A process that has run since before the world began.
  void adopt(const PodId& id, std::int64_t started_ms, std::int64_t gpu_milli, std::int64_t pid);
  /// All processes of `workload` end by themselves with exit code 0.
  void finish(const std::string& workload);
  /// Nothing is said of ends of `workload` until it is released.
  void hold(const std::string& workload, bool held);
  /// Power off: nothing is left and nothing is said.
  void clear();
  const std::map<PodId, Process>& processes() const { return processes_; }

 private:
  void begin(const PodId& id, std::uint64_t number);
  void schedule(const PodId& id);
  void told_to_leave(const PodId& id, Process& process);
  void say_over(const PodId& id, const Process& process);
  void end(const PodId& id, int exit_code);
  std::int64_t work_of(const Process& process) const;
  void say(const PodId& id, v1::ProcessReport::What what, const Process* process);

  World& world_;
  const std::string node_;
  struct Starting {
    std::uint64_t number = 0;
    Process process;
  };
  std::map<PodId, Process> processes_;
  std::map<PodId, Starting> starting_;
  std::map<PodId, Process> over_;  // kept until the node has saved their ends
  std::map<PodId, int> held_;      // gone, not yet told: exit code
  std::map<std::string, bool> silent_;
  std::int64_t next_pid_ = 1000;
  std::int64_t contact_mono_ms_ = 0;  // 0: none since it was switched on
  std::uint64_t next_start_ = 0;
};

}  // namespace ebb::sim
