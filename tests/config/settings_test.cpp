#include "config/settings.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace ebb::config;

TEST_CASE("settings: a file changes what it names and leaves the rest at its default") {
  const auto read = read_server_settings("http: {port: 9000}\nclock:\n  speed: 360\n", "ebbd.yaml");
  REQUIRE(read);
  CHECK(read.value().http_port == 9'000);
  CHECK(read.value().clock_speed == 360.0);
  CHECK(read.value().link_port == 7'071);
  CHECK(read.value().data_dir == ".ebb");
}

TEST_CASE("settings: a refusal names file, line, key, value and what is allowed") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row rows[] = {
      {"data_dir: x\nhttp:\n  prot: 1\n",
       "ebbd.yaml:3: unknown setting `http.prot`; did you mean http.port?"},
      {"htpt: {port: 1}", "ebbd.yaml:1: unknown setting `htpt`"},
      {"http: {port: 65536}", "ebbd.yaml:1: `http.port` is 65536; allowed: 0 to 65535."},
      {"http: {port: many}", "ebbd.yaml:1: `http.port`: a whole number is expected"},
      {"http: {port: 1.5}", "ebbd.yaml:1: `http.port`: a whole number is expected"},
      {"http: {port: [1]}", "ebbd.yaml:1: `http.port`: a whole number is expected"},
      {"http: 7", "ebbd.yaml:1: a map of settings is expected"},
      {"clock: {speed: .nan}", "ebbd.yaml:1: `clock.speed` is nan; allowed: 0.001 to 100000."},
      {"log_level: inf",
       "ebbd.yaml:1: `log_level` is \"inf\"; One of: trace, debug, info, warn, error.; did you "
       "mean info?"},
      {"cluster: a\ncluster: b\n", "ebbd.yaml:2: `cluster` comes twice"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    const auto read = read_server_settings(row.text, "ebbd.yaml");
    REQUIRE(!read);
    CHECK(read.refusal().message == row.message);
  }
}

TEST_CASE("settings: text that is not YAML is refused with its line") {
  const auto read = read_agent_settings("server: a\nnode_prefix: [b\n", "agent.yaml");
  REQUIRE(!read);
  CHECK(read.refusal().message.starts_with("agent.yaml:3: "));
}

TEST_CASE("settings: what is printed is read back as the same settings") {
  AgentSettings settings;
  settings.declare = "16x8:A100";
  settings.node_prefix = "a \"b\" \\c";
  settings.log_bytes_max = 1'099'511'627'776;
  const std::string text = printed(settings);
  const auto read = read_agent_settings(text, "printed");
  REQUIRE(read);
  CHECK(read.value().declare == settings.declare);
  CHECK(read.value().node_prefix == settings.node_prefix);
  CHECK(read.value().log_bytes_max == settings.log_bytes_max);
  CHECK(text.find("# Size at which a pod's log is rotated. Unit: bytes. 4096 to 1099511627776.") !=
        std::string::npos);
  CHECK(read_server_settings(printed(ServerSettings{}), "printed"));
}

TEST_CASE("settings: a value that a flag put out of bounds is found by its key") {
  ServerSettings settings;
  CHECK(check(settings));
  settings.clock_speed = 0;
  const auto checked = check(settings);
  REQUIRE(!checked);
  CHECK(checked.refusal().message == "clock.speed is 0; allowed: 0.001 to 100000.");
}

TEST_CASE("settings: the example of one machine is valid") {
  std::ifstream file(EBB_SOURCE_DIR "/config/examples/one_machine.yaml");
  std::stringstream text;
  text << file.rdbuf();
  REQUIRE(!text.str().empty());
  const auto read = read_server_settings(text.str(), "one_machine.yaml");
  CHECK_MESSAGE(read, (read ? "" : read.refusal().message));
}
