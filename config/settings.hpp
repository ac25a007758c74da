// Settings of ebbd and ebb-agent: read from YAML, every one with unit, bounds and default in one
// table, which is also what
// --print-config prints.
//
// Errors: a refusal "FILE:LINE: ..." for text that is not YAML, an unknown key (with the nearest
// known one), a wrong type, a value out of bounds.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace ebb::config {

struct ServerSettings {
  std::string data_dir = ".ebb";
  std::string cluster = "ebb";
  std::string http_address = "127.0.0.1";
  std::int64_t http_port = 7070;
  std::int64_t http_threads = 2;
  std::int64_t http_connections_max = 1'024;
  std::int64_t http_connections_per_address_max = 256;
  std::int64_t http_reply_timeout_ms = 10'000;
  std::string link_address = "127.0.0.1";
  std::int64_t link_port = 7071;
  double clock_speed = 1.0;
  std::string clock_start;
  std::int64_t node_lost_after_ms = 300'000;
  std::int64_t stop_after_ms = 600'000;
  std::int64_t machine_threads = 2;
  std::string log_level = "info";
};

struct AgentSettings {
  std::string server = "127.0.0.1:7071";
  std::string data_dir = ".ebb-agent";
  std::string server_data_dir = ".ebb";
  std::string declare;
  std::string node_prefix = "node";
  std::string resource_group = "default";
  std::string resource_type = "ECS";
  std::int64_t cpu_cores = 0;
  std::int64_t memory_mb = 0;
  std::int64_t log_bytes_max = 16'777'216;
  std::int64_t log_files_max = 3;
  std::string log_level = "info";
};

/// `file`: name for messages. An empty text leaves all defaults.
Result<ServerSettings> read_server_settings(const std::string& text, const std::string& file);
Result<AgentSettings> read_agent_settings(const std::string& text, const std::string& file);
/// Out of bounds after flags of the command line changed them? Names the key.
Result<Ok> check(const ServerSettings& settings);
Result<Ok> check(const AgentSettings& settings);
/// As a YAML file with unit, bounds and meaning of each as comments; read again it gives the same
/// settings.
std::string printed(const ServerSettings& settings);
std::string printed(const AgentSettings& settings);

}  // namespace ebb::config
