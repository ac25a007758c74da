// The launcher: starts, signals and ends the pods of this agent's nodes, each under a shim
// (agent/shim/), and reports to the node machines what becomes of them.
//
// One thread for all pods; it never waits for one of them. Pods outlive the agent: a new launcher
// finds them by their directories when a node probes. EMPTY is only said with proof: the shim has
// no child left, or, where the shim itself was killed, the pod's cgroup is empty (without cgroups:
// no process has its session or its mark). Errors: a pod that cannot be started is reported FAILED
// with the reason. Source: RELIABILITY.md 1.2, 4.5, R8.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/node.pb.h"

namespace ebb::agent {

struct LauncherNode {
  std::string name;
  std::string host;                  // address for its pods' peers
  std::vector<std::string> gpu_ids;  // empty: GPUs go by their numbers
};
struct LauncherSettings {
  std::string data;          // directory
  std::string shim_program;  // path
  std::string boot_id;
  std::int64_t log_bytes_max = 64 << 20;  // of one file
  int log_files_max = 2;
  bool cgroups = true;  // use them where there are any
  std::vector<LauncherNode> nodes;
};

class Launcher {
 public:
  using Reported = std::function<void(const std::string& node, const v1::ProcessReport& report)>;
  using ContactKept = std::function<void(const std::string& node, std::int64_t mono_ms)>;
  /// Both are called from the launcher's thread and must not wait. `contact_kept` tells, at a
  /// node's probe, the last contact that was ordered to be kept since the machine booted.
  static Result<std::unique_ptr<Launcher>> open(LauncherSettings settings, Reported reported,
                                                ContactKept contact_kept = {});
  /// Pods go on running.
  ~Launcher();
  /// Any thread; orders of one node are carried out in the order of the calls.
  void order(const std::string& node, v1::LauncherInbox order);
  bool uses_cgroups() const;

 private:
  class Inside;
  explicit Launcher(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

std::string read_boot_id();

}  // namespace ebb::agent
