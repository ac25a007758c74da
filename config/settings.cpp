#include "config/settings.hpp"

#include "config/settings_table.hpp"

namespace ebb::config {
namespace {

const std::vector<std::string> kLogLevels = {"trace", "debug", "info", "warn", "error"};

const SettingsTable<ServerSettings>& server_table() {
  using S = ServerSettings;
  static const SettingsTable<S> table({
      {"data_dir",
       &S::data_dir,
       "Directory of the store, the token and the keys; made if missing.",
       "",
       0,
       0,
       {}},
      {"cluster", &S::cluster, "Name of the cluster, part of every envelope.", "", 0, 0, {}},
      {"http.address", &S::http_address, "Address the gateway listens on.", "", 0, 0, {}},
      {"http.port", &S::http_port, "Port of the gateway; 0 takes any free one.", "", 0, 65'535, {}},
      {"http.threads", &S::http_threads, "Threads of the gateway.", "threads", 1, 64, {}},
      {"http.connections_max",
       &S::http_connections_max,
       "Open connections in all.",
       "connections",
       1,
       100'000,
       {}},
      {"http.connections_per_address_max",
       &S::http_connections_per_address_max,
       "Open connections from one address.",
       "connections",
       1,
       100'000,
       {}},
      {"http.reply_timeout_ms",
       &S::http_reply_timeout_ms,
       "How long a request waits for an actor.",
       "ms",
       100,
       600'000,
       {}},
      {"link.address", &S::link_address, "Address that agents connect to.", "", 0, 0, {}},
      {"link.port",
       &S::link_port,
       "Port that agents connect to; 0 takes any free one.",
       "",
       0,
       65'535,
       {}},
      {"clock.speed",
       &S::clock_speed,
       "Milliseconds of the cluster's clock in one of real time.",
       "",
       0.001,
       100'000,
       {}},
      {"clock.start",
       &S::clock_start,
       "Where a new cluster's clock starts, for instance 2026-03-02T07:30:00Z; empty: real time.",
       "",
       0,
       0,
       {}},
      {"node_lost_after_ms",
       &S::node_lost_after_ms,
       "Silence after which a node counts as lost: its capacity leaves its quotas.",
       "ms",
       1'000,
       3'600'000,
       {}},
      {"stop_after_ms",
       &S::stop_after_ms,
       "Time without contact after which a node stops jobs with automatic fault tolerance, which "
       "are then started elsewhere; longer than the longest planned outage of ebbd.",
       "ms",
       5'000,
       86'400'000,
       {}},
      {"machine_threads",
       &S::machine_threads,
       "Threads that run the actors.",
       "threads",
       1,
       256,
       {}},
      {"log_level", &S::log_level, "Least level that is logged.", "", 0, 0, kLogLevels},
  });
  return table;
}

const SettingsTable<AgentSettings>& agent_table() {
  using S = AgentSettings;
  static const SettingsTable<S> table({
      {"server", &S::server, "HOST:PORT of ebbd's link.", "", 0, 0, {}},
      {"data_dir",
       &S::data_dir,
       "Directory of the agent's store, pods' logs and checkpoints.",
       "",
       0,
       0,
       {}},
      {"server_data_dir",
       &S::server_data_dir,
       "ebbd's data directory on the same machine, where its public key is; empty: keys are in "
       "data_dir.",
       "",
       0,
       0,
       {}},
      {"declare",
       &S::declare,
       "Nodes to present instead of those found, NODESxGPUS:MODEL, for instance 16x8:A100; empty: "
       "found by NVML.",
       "",
       0,
       0,
       {}},
      {"node_prefix", &S::node_prefix, "Name of declared nodes before their number.", "", 0, 0, {}},
      {"resource_group", &S::resource_group, "Resource group the nodes belong to.", "", 0, 0, {}},
      {"resource_type",
       &S::resource_type,
       "Resource type of the nodes.",
       "",
       0,
       0,
       {"ECS", "Lingjun"}},
      {"cpu_cores",
       &S::cpu_cores,
       "CPU cores of a node; 0: as found, or in proportion to declared GPUs.",
       "cores",
       0,
       100'000,
       {}},
      {"memory_mb",
       &S::memory_mb,
       "Memory of a node; 0: as found, or in proportion to declared GPUs.",
       "MiB",
       0,
       1'000'000'000,
       {}},
      {"log_bytes_max",
       &S::log_bytes_max,
       "Size at which a pod's log is rotated.",
       "bytes",
       4'096,
       1'099'511'627'776,
       {}},
      {"log_files_max", &S::log_files_max, "Log files kept of a pod.", "files", 1, 1'000, {}},
      {"log_level", &S::log_level, "Least level that is logged.", "", 0, 0, kLogLevels},
  });
  return table;
}

}  // namespace

Result<ServerSettings> read_server_settings(const std::string& text, const std::string& file) {
  return server_table().read(text, file);
}
Result<AgentSettings> read_agent_settings(const std::string& text, const std::string& file) {
  return agent_table().read(text, file);
}
Result<Ok> check(const ServerSettings& settings) { return server_table().check(settings); }
Result<Ok> check(const AgentSettings& settings) { return agent_table().check(settings); }
std::string printed(const ServerSettings& settings) { return server_table().printed(settings); }
std::string printed(const AgentSettings& settings) { return agent_table().printed(settings); }

}  // namespace ebb::config
