#include <sys/wait.h>
#include <unistd.h>

#include "tests/agent/launcher_bench.hpp"

using namespace ebb;                  // NOLINT: a test
using namespace ebb::agent;           // NOLINT
using namespace ebb::agent::testing;  // NOLINT
using What = v1::ProcessReport;

TEST_CASE("launcher: a pod's exit code arrives, also that of a signal") {
  struct Row {
    const char* text;
    int exit_code;
  };
  const Row rows[] = {
      {"exit 0", 0}, {"exit 3", 3}, {"exit 255", 255}, {"kill -9 $$", 137}, {"kill -TERM $$", 143}};
  const Directory data;
  LauncherBench bench(data.path());
  std::uint32_t pod = 0;
  for (const Row& row : rows) {
    CAPTURE(row.text);
    bench.launch(shell(key_of(++pod), row.text));
    const What started = bench.wait(key_of(pod), What::WHAT_STARTED);
    CHECK(started.pid() > 0);
    CHECK(started.process_start() > 0);
    CHECK(bench.wait(key_of(pod), What::WHAT_ENDED).exit_code() == row.exit_code);
    CHECK(bench.wait(key_of(pod), What::WHAT_EMPTY).exit_code() == row.exit_code);
  }
}

TEST_CASE("launcher: a program that cannot be run is FAILED with the reason") {
  const Directory data;
  LauncherBench bench(data.path());
  v1::LaunchPod missing = shell(key_of(0), "");
  missing.mutable_spec()->set_command(0, "/no/such/program");
  bench.launch(missing);
  const What failed = bench.wait(key_of(0), What::WHAT_FAILED);
  CHECK(failed.exit_code() == 127);
  CHECK(failed.error() == "cannot run /no/such/program: No such file or directory");
  v1::LaunchPod lost = shell(key_of(1), "exit 0");
  lost.mutable_spec()->set_workdir("/no/such/place");
  bench.launch(lost);
  CHECK(bench.wait(key_of(1), What::WHAT_FAILED).error() ==
        "working directory /no/such/place: No such file or directory");
  CHECK_FALSE(bench.has(key_of(1), What::WHAT_STARTED));
}

TEST_CASE("launcher: a pod that ignores SIGTERM and hides daemons is gone before EMPTY is said") {
  for (const bool cgroups : {true, false}) {
    CAPTURE(cgroups);
    const Directory data;
    LauncherBench bench(data.path(), cgroups);
    // Two forks deep, in sessions of their own, orphaned at once, deaf to SIGTERM.
    const std::string daemon =
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; (echo $$ > " + data.path() +
        "/daemon1; sleep 1000) & setsid sh -c \"echo \\$\\$ > " + data.path() +
        "/daemon2; sleep 1000\" & exit 0' & sleep 1000; sleep 1000";
    bench.launch(shell(key_of(0), daemon));
    const What started = bench.wait(key_of(0), What::WHAT_STARTED);
    const pid_t first = pid_in(data.path() + "/daemon1"), second = pid_in(data.path() + "/daemon2");
    bench.signal(key_of(0), SIGTERM, true);
    bench.kill(key_of(0));
    const What empty = bench.wait(key_of(0), What::WHAT_EMPTY);
    CHECK_FALSE(lives(static_cast<pid_t>(started.pid())));
    CHECK_FALSE(lives(first));
    CHECK_FALSE(lives(second));
    CHECK(empty.exit_code() == 137);
  }
}

TEST_CASE("launcher: what a pod leaves behind at its own end is killed before EMPTY") {
  const Directory data;
  LauncherBench bench(data.path());
  bench.launch(shell(key_of(0), "setsid sh -c 'echo $$ > " + data.path() +
                                    "/daemon; exec sleep 1000' & while [ ! -s " + data.path() +
                                    "/daemon ]; do sleep 0.01; done; exit 5"));
  CHECK(bench.wait(key_of(0), What::WHAT_EMPTY).exit_code() == 5);
  CHECK_FALSE(lives(pid_in(data.path() + "/daemon")));
}

TEST_CASE("launcher: after a leave signal the rest of the group keeps its time") {
  const Directory data;
  LauncherBench bench(data.path());
  // The shell dies of the signal at once; its child saves and ends by itself.
  bench.launch(shell(key_of(0), "(trap 'echo saved > " + data.path() +
                                    "/saved; exit 0' TERM; echo x > " + data.path() +
                                    "/ready; while :; do sleep 0.01; done) & wait"));
  bench.wait(key_of(0), What::WHAT_STARTED);
  REQUIRE(eventually([&] { return std::filesystem::exists(data.path() + "/ready"); }));
  bench.signal(key_of(0), SIGTERM, true);
  bench.wait(key_of(0), What::WHAT_EMPTY);
  CHECK(std::filesystem::exists(data.path() + "/saved"));
}

TEST_CASE("launcher: a leave signal is delivered once, a user's signal each time") {
  const Directory data;
  LauncherBench bench(data.path());
  const std::string out = data.path() + "/signals";
  bench.launch(shell(key_of(0), "trap 'echo term >> " + out + "' TERM; trap 'echo usr >> " + out +
                                    "' USR1; echo ready >> " + out +
                                    "; while :; do sleep 0.01; done"));
  const auto text = [&] { return read_file(out); };
  REQUIRE(eventually([&] { return text() == "ready\n"; }));
  bench.signal(key_of(0), SIGTERM, true);
  REQUIRE(eventually([&] { return text() == "ready\nterm\n"; }));
  bench.signal(key_of(0), SIGTERM, true);
  bench.signal(key_of(0), SIGUSR1, false);
  REQUIRE(eventually([&] { return text() == "ready\nterm\nusr\n"; }));
  bench.kill(key_of(0));
  bench.wait(key_of(0), What::WHAT_EMPTY);
  CHECK(text() == "ready\nterm\nusr\n");
}

TEST_CASE("launcher: a pod is started once, however often it is ordered") {
  const Directory data;
  LauncherBench bench(data.path());
  const v1::LaunchPod pod = shell(key_of(0), "echo x >> " + data.path() + "/starts; exit 0");
  bench.launch(pod);
  bench.launch(pod);
  bench.wait(key_of(0), What::WHAT_EMPTY);
  bench.launch(pod);
  REQUIRE(eventually([&] { return bench.count(key_of(0), What::WHAT_EMPTY) == 2; }));
  CHECK(read_file(data.path() + "/starts") == "x\n");
}

TEST_CASE("launcher: the log is kept in as many files of its limit as are allowed") {
  const Directory data;
  LauncherBench bench(data.path(), true, 10'000);
  bench.launch(shell(key_of(0),
                     "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; "
                     "echo to stderr >&2"));
  const What started = bench.wait(key_of(0), What::WHAT_STARTED);
  bench.wait(key_of(0), What::WHAT_EMPTY);
  CHECK(started.log_path() == data.path() + "/logs/job.a.0/attempt-1/pod-0.log");
  const std::string now = read_file(started.log_path());
  const std::string before = read_file(started.log_path() + ".1");
  const std::string oldest = read_file(started.log_path() + ".2");
  CHECK(before.size() == 10'000);
  CHECK(oldest.size() == 10'000);
  CHECK_FALSE(std::filesystem::exists(started.log_path() + ".3"));
  CHECK(now.size() <= 10'000);
  const std::string all = oldest + before + now;
  CHECK(all.size() > 20'000);
  CHECK(all.substr(all.size() - 20) == "line 2999\nto stderr\n");
}

TEST_CASE("launcher: a pod finds its GPUs, rank and rendezvous in its environment") {
  const Directory data;
  LauncherBench bench(data.path());
  v1::LaunchPod pod = shell(key_of(3, 2),
                            "env; umask; ulimit -c; ls /proc/self/fd | wc -l; grep "
                            "NoNewPrivs /proc/self/status; pwd");
  for (const std::uint32_t gpu : {1u, 0u}) pod.add_gpus()->set_gpu(gpu);
  v1::LaunchSpec* spec = pod.mutable_spec();
  spec->set_rank(3);
  spec->set_world_size(8);
  spec->set_master_node("n2");
  spec->set_job_id("a");
  spec->set_role("Worker");
  (*spec->mutable_env())["LR"] = "0.1";
  (*spec->mutable_env())["RANK"] = "99";
  bench.launch(pod);
  const What started = bench.wait(key_of(3, 2), What::WHAT_STARTED);
  bench.wait(key_of(3, 2), What::WHAT_EMPTY);
  const std::string log = "\n" + read_file(started.log_path());
  for (const std::string line :
       {"CUDA_VISIBLE_DEVICES=1,0", "NVIDIA_VISIBLE_DEVICES=1,0", "RANK=3", "WORLD_SIZE=8",
        "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.2", "EBB_JOB_ID=a",
        "EBB_ATTEMPT=2", "EBB_POD=3", "EBB_ROLE=Worker", "EBB_NODE=n1", "LR=0.1", "0077",
        "NoNewPrivs:\t1"}) {
    CAPTURE(line);
    CHECK(log.find("\n" + line + "\n") != std::string::npos);
  }
  CHECK(log.find("\nEBB_CHECKPOINT_DIR=" + data.path() + "/checkpoints/job.a.0\n") !=
        std::string::npos);
  CHECK(log.find("\n" + data.path() + "/work/job.a.0\n") != std::string::npos);
  CHECK(log.find("\n0\n4\n") != std::string::npos);  // no core; stdin, stdout, stderr, ls's own
  CHECK(log.find("EBB_PORT") == std::string::npos);
  CHECK(std::filesystem::is_directory(data.path() + "/checkpoints/job.a.0"));
}

TEST_CASE("launcher: an idle guest is not told where it runs") {
  const Directory data;
  LauncherBench bench(data.path());
  v1::LaunchPod pod = shell(key_of(0), "env");
  pod.add_gpus()->set_gpu(1);
  pod.mutable_spec()->set_hide_node(true);
  bench.launch(pod, "n2");
  const What started = bench.wait(key_of(0), What::WHAT_STARTED);
  bench.wait(key_of(0), What::WHAT_EMPTY);
  const std::string log = read_file(started.log_path());
  CHECK(log.find("EBB_NODE") == std::string::npos);
  CHECK(log.find("GPU-y") == std::string::npos);
  CHECK(log.find("CUDA_VISIBLE_DEVICES=1\n") != std::string::npos);
}

TEST_CASE("launcher: a service replica gets a free port of its own") {
  const Directory data;
  LauncherBench bench(data.path());
  std::set<std::uint32_t> ports;
  for (std::uint32_t pod = 0; pod < 3; ++pod) {
    v1::LaunchPod replica = shell(key_of(pod, 1, "service/s"), "echo $EBB_PORT $PORT");
    replica.set_product(v1::PRODUCT_SERVICE);
    bench.launch(replica);
    const What started = bench.wait(key_of(pod, 1, "service/s"), What::WHAT_STARTED);
    bench.wait(key_of(pod, 1, "service/s"), What::WHAT_EMPTY);
    const std::string port = std::to_string(started.port());
    CHECK(read_file(started.log_path()) == port + " " + port + "\n");
    CHECK(started.port() >= 20'000);
    ports.insert(started.port());
  }
  CHECK(ports.size() == 3);
}

TEST_CASE("launcher: a new checkpoint is reported, an old attempt's is not") {
  const Directory data;
  LauncherBench bench(data.path());
  bench.launch(shell(key_of(0, 1), "echo step > $EBB_CHECKPOINT_DIR/last"));
  bench.wait(key_of(0, 1), What::WHAT_EMPTY);
  CHECK(bench.count(key_of(0, 1), What::WHAT_CHECKPOINT) == 1);
  bench.launch(shell(key_of(0, 2), "exit 0"));
  bench.wait(key_of(0, 2), What::WHAT_EMPTY);
  CHECK(bench.count(key_of(0, 2), What::WHAT_CHECKPOINT) == 0);
}

TEST_CASE("launcher: after forgetting a pod its files are gone, its log stays") {
  const Directory data;
  LauncherBench bench(data.path());
  bench.launch(shell(key_of(0), "echo x"));
  const What started = bench.wait(key_of(0), What::WHAT_STARTED);
  bench.wait(key_of(0), What::WHAT_EMPTY);
  const std::string directory = data.path() + "/pods/n1/job.a.0.1.0";
  CHECK(std::filesystem::exists(directory));
  bench.forget(key_of(0));
  CHECK(eventually([&] { return !std::filesystem::exists(directory); }));
  CHECK(read_file(started.log_path()) == "x\n");
}
