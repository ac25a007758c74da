// What is found again when agent or shim is killed.
#include <sys/wait.h>
#include <unistd.h>

#include <map>

#include "tests/agent/launcher_bench.hpp"

using namespace ebb;                  // NOLINT: a test
using namespace ebb::agent;           // NOLINT
using namespace ebb::agent::testing;  // NOLINT
using What = v1::ProcessReport;

namespace {
constexpr std::uint32_t kPods = 64;

/// Runs an agent's launcher in a process of its own until all pods have started, then kills that
/// process.
template <class Launch>
void agent_that_is_killed(const std::string& data, std::uint32_t pods, Launch&& launch) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t agent = ::fork();
  if (agent == 0) {
    LauncherBench bench(data);
    for (std::uint32_t pod = 0; pod < pods; ++pod) bench.launch(launch(pod));
    for (std::uint32_t pod = 0; pod < pods; ++pod) bench.wait(key_of(pod), What::WHAT_STARTED);
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(ready[1]);
  char byte = 0;
  const bool is_ready = ::read(ready[0], &byte, 1) == 1;
  ::close(ready[0]);
  REQUIRE(::kill(agent, SIGKILL) == 0);
  REQUIRE(::waitpid(agent, nullptr, 0) == agent);
  REQUIRE(is_ready);
}

std::string pod_directory(const std::string& data, std::uint32_t pod) {
  return data + "/pods/n1/job.a.0.1." + std::to_string(pod);
}
}  // namespace

TEST_CASE("recovery: 64 pods are found again after kill -9 of the agent, exit codes included") {
  const Directory data;
  // Every fourth ends while there is no agent, with its own number as exit code.
  agent_that_is_killed(data.path(), kPods, [&](std::uint32_t pod) {
    const std::string wait =
        "while [ ! -e " + data.path() + "/go ]; do sleep 0.05; done; exit " + std::to_string(pod);
    return shell(key_of(pod), pod % 4 == 0 ? wait : "exec sleep 1000");
  });
  std::map<std::uint32_t, Identity> before;
  std::vector<v1::PodKey> all;
  for (std::uint32_t pod = 0; pod < kPods; ++pod) {
    const auto identity = read_identity(pod_directory(data.path(), pod));
    REQUIRE(identity);
    before[pod] = *identity;
    all.push_back(key_of(pod));
  }
  std::ofstream(data.path() + "/go") << "go";
  REQUIRE(eventually([&] {
    for (std::uint32_t pod = 0; pod < kPods; pod += 4) {
      const auto exit = read_exit(pod_directory(data.path(), pod));
      if (!exit || exit->what != Exit::What::Empty) return false;
    }
    return true;
  }));
  LauncherBench found(data.path(), all);
  for (std::uint32_t pod = 0; pod < kPods; ++pod) {
    CAPTURE(pod);
    const What started = found.wait(key_of(pod), What::WHAT_STARTED);
    CHECK(started.pid() == before[pod].pid);
    CHECK(started.process_start() == before[pod].start);
    if (pod % 4 == 0) {
      CHECK(found.wait(key_of(pod), What::WHAT_EMPTY).exit_code() == static_cast<int>(pod));
    } else {
      CHECK(start_of(before[pod].pid) == before[pod].start);
      found.kill(key_of(pod));
    }
  }
  for (std::uint32_t pod = 0; pod < kPods; ++pod) {
    CHECK(found.wait(key_of(pod), What::WHAT_EMPTY).exit_code() ==
          (pod % 4 == 0 ? static_cast<int>(pod) : 137));
  }
}

TEST_CASE(
    "recovery: a pod whose shim is killed is watched, its slot is empty only when it is gone") {
  for (const bool cgroups : {true, false}) {
    CAPTURE(cgroups);
    const Directory data;
    LauncherBench bench(data.path(), cgroups);
    bench.launch(shell(key_of(0), "setsid sh -c 'echo $$ > " + data.path() +
                                      "/daemon; exec sleep 1000' & while [ ! -e " + data.path() +
                                      "/go ]; do sleep 0.05; done; exit 0"));
    const What started = bench.wait(key_of(0), What::WHAT_STARTED);
    const pid_t daemon = pid_in(data.path() + "/daemon");
    const auto identity = read_identity(pod_directory(data.path(), 0));
    REQUIRE(identity);
    REQUIRE(::kill(identity->shim, SIGKILL) == 0);
    REQUIRE(eventually([&] { return !lives(identity->shim); }));
    CHECK(lives(static_cast<pid_t>(started.pid())));
    CHECK_FALSE(bench.has(key_of(0), What::WHAT_EMPTY));
    std::ofstream(data.path() + "/go") << "go";
    CHECK(bench.wait(key_of(0), What::WHAT_ENDED).exit_code() == -1);
    CHECK(bench.wait(key_of(0), What::WHAT_EMPTY).exit_code() == -1);
    CHECK_FALSE(lives(daemon));
    CHECK_FALSE(lives(static_cast<pid_t>(started.pid())));
  }
}

TEST_CASE(
    "recovery: agent and shim both killed: the pod is found by pid and start time, and ended") {
  for (const bool cgroups : {true, false}) {
    CAPTURE(cgroups);
    const Directory data;
    agent_that_is_killed(data.path(), 1,
                         [](std::uint32_t pod) { return shell(key_of(pod), "exec sleep 1000"); });
    const auto identity = read_identity(pod_directory(data.path(), 0));
    REQUIRE(identity);
    REQUIRE(::kill(identity->shim, SIGKILL) == 0);
    REQUIRE(eventually([&] { return !lives(identity->shim); }));
    LauncherBench found(data.path(), {key_of(0)}, cgroups);
    CHECK(found.wait(key_of(0), What::WHAT_STARTED).pid() == identity->pid);
    CHECK(lives(identity->pid));
    found.kill(key_of(0));
    CHECK(found.wait(key_of(0), What::WHAT_EMPTY).exit_code() == -1);
    CHECK_FALSE(lives(identity->pid));
  }
}

TEST_CASE("recovery: a pod that no node believes in is killed before anything is launched") {
  const Directory data;
  agent_that_is_killed(data.path(), 1,
                       [](std::uint32_t pod) { return shell(key_of(pod), "exec sleep 1000"); });
  const auto identity = read_identity(pod_directory(data.path(), 0));
  REQUIRE(identity);
  LauncherBench found(data.path());  // probes with an empty list
  found.launch(shell(key_of(5), "kill -0 " + std::to_string(identity->pid) + " && exit 1; exit 0"));
  CHECK(found.wait(key_of(5), What::WHAT_EMPTY).exit_code() == 0);
  CHECK_FALSE(lives(identity->pid));
  CHECK_FALSE(found.has(key_of(0), What::WHAT_EMPTY));
}

TEST_CASE("recovery: a pod that was never started is absent, one of another boot is gone") {
  const Directory data;
  std::filesystem::create_directories(pod_directory(data.path(), 1));
  std::filesystem::create_directories(pod_directory(data.path(), 2));
  // Our own pid and start time, but of another boot: nothing may be done to it.
  std::ofstream(pod_directory(data.path(), 2) + "/identity")
      << "boot_id=other\npid=" << ::getpid() << "\nstart=" << start_of(::getpid())
      << "\nshim=1\nlog=/x\ncgroup=\nport=0\n";
  LauncherBench found(data.path(), {key_of(0), key_of(1), key_of(2)});
  found.wait(key_of(0), What::WHAT_ABSENT);
  found.wait(key_of(1), What::WHAT_ABSENT);
  CHECK(found.wait(key_of(2), What::WHAT_EMPTY).exit_code() == -1);
}

TEST_CASE("recovery: 64 pods are replaced by 64 new ones") {
  const Directory data;
  LauncherBench bench(data.path());
  for (std::uint32_t pod = 0; pod < kPods; ++pod) {
    bench.launch(shell(key_of(pod), "exec sleep 1000"));
  }
  for (std::uint32_t pod = 0; pod < kPods; ++pod) bench.wait(key_of(pod), What::WHAT_STARTED);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint32_t pod = 0; pod < kPods; ++pod) bench.signal(key_of(pod), SIGTERM, true);
  for (std::uint32_t pod = 0; pod < kPods; ++pod) bench.wait(key_of(pod), What::WHAT_EMPTY);
  const auto emptied = std::chrono::steady_clock::now();
  for (std::uint32_t pod = 0; pod < kPods; ++pod) {
    bench.launch(shell(key_of(pod, 2), "exec sleep 1000"));
  }
  for (std::uint32_t pod = 0; pod < kPods; ++pod) bench.wait(key_of(pod, 2), What::WHAT_STARTED);
  const auto end = std::chrono::steady_clock::now();
  const auto ms = [](auto span) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  };
  MESSAGE("64 pods signalled and gone in " << ms(emptied - start) << " ms, 64 started in "
                                           << ms(end - emptied) << " ms");
  CHECK(ms(end - start) < 5'000);  // far above the target of 500: other work shares the machine
  for (std::uint32_t pod = 0; pod < kPods; ++pod) bench.kill(key_of(pod, 2));
  for (std::uint32_t pod = 0; pod < kPods; ++pod) bench.wait(key_of(pod, 2), What::WHAT_EMPTY);
}
