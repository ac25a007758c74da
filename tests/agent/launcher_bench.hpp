// A launcher with real processes in a directory of its own; what it reports is kept and waited for.
#pragma once
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "agent/launcher.hpp"
#include "agent/pod_files.hpp"
#include "agent/shim/processes.hpp"

namespace ebb::agent::testing {

inline constexpr auto kDeadline = std::chrono::seconds(20);

/// Waits for what no report tells, looking again every 5 ms. False: the deadline has passed.
inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + kDeadline;
  while (std::chrono::steady_clock::now() < end) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return holds();
}

class Directory {
 public:
  Directory() {
    char name[] = "/tmp/ebb-agent-test-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline v1::PodKey key_of(std::uint32_t pod, std::uint32_t attempt = 1,
                         const std::string& workload = "job/a") {
  v1::PodKey key;
  key.set_workload(workload);
  key.set_attempt(attempt);
  key.set_pod(pod);
  return key;
}

inline v1::LaunchPod shell(const v1::PodKey& key, const std::string& text) {
  v1::LaunchPod launch;
  *launch.mutable_key() = key;
  launch.mutable_spec()->add_command("/bin/sh");
  launch.mutable_spec()->add_command("-c");
  launch.mutable_spec()->add_command(text);
  launch.set_product(v1::PRODUCT_JOB);
  return launch;
}

class LauncherBench {
 public:
  using What = v1::ProcessReport;
  explicit LauncherBench(const std::string& data, bool cgroups = true,
                         std::int64_t log_bytes_max = 64 << 20)
      : LauncherBench(data, std::vector<v1::PodKey>{}, cgroups, log_bytes_max) {}
  LauncherBench(const std::string& data, const std::vector<v1::PodKey>& alive, bool cgroups = true,
                std::int64_t log_bytes_max = 64 << 20) {
    LauncherSettings settings;
    settings.data = data;
    settings.shim_program = EBB_SHIM;
    settings.boot_id = read_boot_id();
    settings.cgroups = cgroups;
    settings.log_bytes_max = log_bytes_max;
    settings.log_files_max = 3;
    settings.nodes = {{"n1", "127.0.0.1", {}}, {"n2", "127.0.0.2", {"GPU-x", "GPU-y"}}};
    auto opened = Launcher::open(settings, [this](const std::string& node, const What& report) {
      std::lock_guard lock(mutex_);
      reports_.push_back({node, report});
      changed_.notify_all();
    });
    REQUIRE(opened);
    launcher = std::move(*opened);
    probe(alive);
  }
  void launch(const v1::LaunchPod& pod, const std::string& node = "n1") {
    v1::LauncherInbox inbox;
    *inbox.mutable_launch() = pod;
    launcher->order(node, inbox);
  }
  void signal(const v1::PodKey& key, int signo, bool leave) {
    v1::LauncherInbox inbox;
    *inbox.mutable_signal()->mutable_key() = key;
    inbox.mutable_signal()->set_signo(signo);
    inbox.mutable_signal()->set_leave(leave);
    launcher->order("n1", inbox);
  }
  void kill(const v1::PodKey& key) {
    v1::LauncherInbox inbox;
    *inbox.mutable_kill()->mutable_key() = key;
    launcher->order("n1", inbox);
  }
  void probe(const std::vector<v1::PodKey>& alive) {
    v1::LauncherInbox inbox;
    inbox.mutable_probe();
    for (const v1::PodKey& key : alive) *inbox.mutable_probe()->add_alive() = key;
    launcher->order("n1", inbox);
  }
  void forget(const v1::PodKey& key) {
    v1::LauncherInbox inbox;
    *inbox.mutable_forget()->mutable_key() = key;
    launcher->order("n1", inbox);
  }

  What wait(const v1::PodKey& key, What::What what) {
    std::unique_lock lock(mutex_);
    What found;
    const bool there = changed_.wait_for(lock, kDeadline, [&] { return have(key, what, &found); });
    CAPTURE(key.ShortDebugString());
    CAPTURE(What::What_Name(what));
    REQUIRE(there);
    return found;
  }
  bool has(const v1::PodKey& key, What::What what) {
    std::lock_guard lock(mutex_);
    What found;
    return have(key, what, &found);
  }
  std::size_t count(const v1::PodKey& key, What::What what) {
    std::lock_guard lock(mutex_);
    std::size_t n = 0;
    for (const auto& [node, report] : reports_) n += is(report, key, what) ? 1 : 0;
    return n;
  }

  std::unique_ptr<Launcher> launcher;

 private:
  static bool is(const What& report, const v1::PodKey& key, What::What what) {
    return report.workload() == key.workload() && report.attempt() == key.attempt() &&
           report.pod() == key.pod() && report.what() == what;
  }
  bool have(const v1::PodKey& key, What::What what, What* found) const {
    for (const auto& [node, report] : reports_) {
      if (!is(report, key, what)) continue;
      *found = report;
      return true;
    }
    return false;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::string, What>> reports_;
};

inline bool lives(pid_t pid) { return start_of(pid) != 0; }

/// The number in a file that a pod writes; waits for it.
inline pid_t pid_in(const std::string& path) {
  pid_t pid = 0;
  REQUIRE(eventually([&] { return (std::ifstream(path) >> pid) && pid > 0; }));
  return pid;
}

}  // namespace ebb::agent::testing
