// The whole house in one test: the real machines of tenant, workspace, quotas, pool, workloads and
// nodes, a store, a post office and launchers that only pretend. Time is virtual. Messages can be
// lost, doubled and delayed, and any machine can die and is rebuilt from its records.
//
// Checked after every step: I3/I1 for the quotas' books as they were saved, I4 (a GPU of a node is
// given to one pod at most), I6 (two attempts of one claim never run at once).
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "actors/machine.hpp"
#include "actors/records.hpp"
#include "tests/actors/workload_bench.hpp"

namespace ebb::test {

class House {
 public:
  /// `nodes` nodes of eight GPUs each, node type "a100".
  explicit House(int nodes);

  // What a gateway asks. Each waits for the answer.
  v1::Reply ask(const std::string& to, v1::Envelope envelope);
  v1::Reply tenant(const v1::TenantCommand& command);
  v1::Reply workspace(const v1::WorkspaceCommand& command);
  v1::Reply quota(const std::string& id, const v1::QuotaCommand& command);
  v1::Reply workload(const std::string& address, const v1::WorkloadCommand& command);

  /// Root quota "q1" of all nodes, workspace "w1" bound to it.
  void furnish(bool child_preemption);
  /// A child of q1, bound to the workspace.
  void add_quota(const std::string& id, std::int64_t gpus);
  v1::Reply submit(v1::WorkloadSpec spec, const std::string& token = {},
                   const std::string& principal = {});
  v1::WorkloadRecord describe(const std::string& address);
  v1::QuotaView quota_view(const std::string& id);

  void run_ms(std::int64_t ms);
  bool run_until(const std::function<bool()>& condition, std::int64_t ms = 120'000);
  bool reaches(const std::string& address, const std::string& status, std::int64_t ms = 120'000);
  std::string status(const std::string& address);
  void kill(const std::string& address);    // it is rebuilt at once
  void power_off(const std::string& node);  // its processes end, unheard of
  void boot_anew(const std::string& node);  // the agent starts under another boot id
  void kill_ebbd();                         // all machines but the nodes

  FaultRates faults;
  std::set<std::string> mute;     // addresses from which nothing arrives
  std::set<std::string> deaf;     // addresses to which nothing arrives
  bool silence_expected = false;  // alarms about silent nodes are right
  actors::Tuning tuning;          // of machines that are built from now on
  /// Kinds of machines that may die alone: those whose neighbours live in other processes.
  std::set<std::string> mortal = {"node"};
  void seed(std::uint32_t seed) { random_.seed(seed); }
  /// How long a pod's program runs and its exit code; negative: until it is told to go.
  std::function<std::pair<std::int64_t, int>(const v1::PodKey&)> program;
  std::int64_t checkpoint_ms = 50;  // from SIGTERM to the end of a program

  std::size_t running(const std::string& workload) const;
  std::size_t running_on(const std::string& node, const std::string& workload) const;
  std::size_t processes() const { return processes_.size(); }
  std::vector<std::string> broken;  // rules and alarms
  std::vector<std::string> decisions;
  std::string last_decisions(std::size_t count) const;
  std::int64_t now_ms() const { return now_.mono_ms; }

 private:
  struct Cell {
    std::unique_ptr<actors::Machine> machine;
    std::int64_t wake_at = -1;
    std::uint64_t epoch = 1;
  };
  struct Process {
    std::string node;
    v1::PodKey key;
    std::set<std::uint32_t> gpus;
    std::int64_t ends_at = -1;
    int exit_code = 0;
  };
  void build(const std::string& address);
  void start(const std::string& address);
  void step(const std::string& address,
            const std::function<void(actors::Machine&, actors::Effects&)>& act);
  void carry_out(const std::string& address, actors::Effects&& effects, bool sends);
  void fly(v1::Envelope envelope);
  void deliver(const v1::Envelope& envelope);
  void launcher(const std::string& node, const v1::LauncherInbox& order);
  void report(const Process& process, v1::ProcessReport::What what);
  void end_processes();
  void check_books();
  std::int64_t next_due() const;
  bool chance(double rate) { return std::uniform_real_distribution<>(0, 1)(random_) < rate; }

  Instant now_{.mono_ms = 1'000, .wall_ms = 1'764'547'200'000, .speed = 1.0};
  std::map<std::string, v1::Record> store_;
  std::map<std::string, Cell> cells_;
  std::multimap<std::int64_t, v1::Envelope> flying_;
  std::map<std::string, Process> processes_;  // by key text
  std::map<std::string, v1::Reply> replies_;
  std::uint64_t next_correlation_ = 1;
  std::map<std::string, std::int64_t> spent_before_;  // by quota and node type
  int rounds_ = 0;
  std::mt19937 random_{1};
};

}  // namespace ebb::test
