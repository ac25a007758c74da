#include "agent/inventory.hpp"

#include <doctest/doctest.h>

#include "agent/nvml.hpp"
#include "agent/pod_env.hpp"
#include "agent/pod_files.hpp"

using namespace ebb;         // NOLINT: a test
using namespace ebb::agent;  // NOLINT

TEST_CASE("inventory: declared nodes are numbered through and carry type, GPUs, CPU and memory") {
  InventorySettings settings;
  settings.declarations = *parse_declarations("16x8:A100, 1x4:H100");
  settings.boot_id = std::string(1, 'b');
  const std::vector<v1::NodeFacts> nodes = *take_inventory(settings);
  REQUIRE(nodes.size() == 17);
  CHECK(nodes[0].node() == "node-00");
  CHECK(nodes[16].node() == "node-16");
  CHECK(nodes[0].node_type() == "A100x8");
  CHECK(nodes[16].node_type() == "H100x4");
  CHECK(nodes[0].total().gpu_milli() == 8'000);
  CHECK(nodes[0].total().cpu_milli() == 96'000);
  CHECK(nodes[0].total().memory_bytes() == std::int64_t{960} << 30);
  CHECK(nodes[16].gpu_model() == "H100");
  CHECK(nodes[16].boot_id() == "b");
}

TEST_CASE("inventory: a declaration that cannot be read is refused with what is allowed") {
  for (const char* text : {"16", "16x8", "16x8:", "x8:A100", "0x8:A100", "16x65:A100", "10001x1:A",
                           "-1x8:A100", "16x8A100", "16 x8:A100", "99999999999x1:A"}) {
    CAPTURE(text);
    const auto read = parse_declarations(text);
    REQUIRE_FALSE(read);
    CHECK(read.refusal().message.find("allowed is NODESxGPUS:MODEL") != std::string::npos);
  }
}

TEST_CASE("inventory: without NVML the refusal says how nodes are declared") {
  const auto nvml = Nvml::open("libno-such-library.so");
  REQUIRE_FALSE(nvml);
  CHECK(nvml.refusal().message.find("--declare 1x8:A100") != std::string::npos);
}

TEST_CASE("pod files: names are unique, stay in their directory and can be read back") {
  const PodName names[] = {{"job/dlc1", 0, 1, 0},
                           {"service/s.1", 0, 1, 0},
                           {"service/s", 1, 1, 0},
                           {"job/../../etc/passwd", 4294967295u, 2, 7},
                           {"job/a b%\n", 0, 3, 1}};
  for (const PodName& name : names) {
    const std::string file = pod_file_name(name);
    CAPTURE(file);
    CHECK(file.find('/') == std::string::npos);
    CHECK(file.find("..") == std::string::npos);
    const auto back = parse_pod_file_name(file);
    REQUIRE(back);
    CHECK(*back == name);
  }
  CHECK(pod_file_name(names[0]) == "job.dlc1.0.1.0");
  CHECK(pod_file_name(names[1]) != pod_file_name(names[2]));
  for (const char* other : {"", ".", "lost+found", "job.a.0.1", "job.a.0.1.x", "job.%4.0.1.0"}) {
    CAPTURE(other);
    CHECK_FALSE(parse_pod_file_name(other));
  }
}

TEST_CASE("pod environment: every pod of an attempt finds the same rendezvous port") {
  v1::PodKey first, second;
  for (v1::PodKey* key : {&first, &second}) {
    key->set_workload("job/a");
    key->set_attempt(1);
  }
  second.set_pod(7);
  CHECK(rendezvous_port(first) == rendezvous_port(second));
  CHECK(rendezvous_port(first) >= 10'000);
  CHECK(rendezvous_port(first) < 20'000);
  second.set_attempt(2);  // the former attempt's socket may still linger
  CHECK(rendezvous_port(first) != rendezvous_port(second));
}

TEST_CASE("pod: a shell that would only become the program is left out") {
  struct Row {
    const char* script;
    std::vector<std::string> command;  // empty: as given, by a shell
  };
  const Row rows[] = {
      {"exec sleep 10", {"sleep", "10"}},
      {"exec  python3 train.py --lr=0.1", {"python3", "train.py", "--lr=0.1"}},
      {"sleep 10", {}},                  // the shell stays, and is who gets the signals
      {"exec sleep 10; echo gone", {}},  // failing to exec, it would go on
      {"exec echo $RANK", {}},
      {"exec sleep 10 &", {}},
      {"exec ls *", {}},
      {"exec ls ~", {}},
      {"exec echo 'a b'", {}},
      {"exec true\nfalse", {}},
      {"exec -a name sleep 10", {}},
      {"exec", {}},
      {"", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.script);
    v1::LaunchSpec spec;
    for (const char* word : {"/bin/sh", "-c", row.script}) spec.add_command(word);
    const std::vector<std::string> given{"/bin/sh", "-c", row.script};
    CHECK(pod_command(spec) == (row.command.empty() ? given : row.command));
  }
  v1::LaunchSpec list;
  for (const char* word : {"exec", "-c", "exec true"}) list.add_command(word);
  CHECK(pod_command(list) == std::vector<std::string>{"exec", "-c", "exec true"});
}
