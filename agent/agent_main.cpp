// ebb-agent: hosts the machines of its nodes with their own store, and starts their pods.
//
// Prints one line `ebb-agent ready nodes=N` when its nodes live. SIGTERM and SIGINT stop it; pods
// go on and are found again at the next start. Exit codes: 0 stopped, 1 could not start (with a
// sentence on stderr), 70 must not go on, 74 the store could not be synced.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <thread>

#include "actors/node/node_states.hpp"
#include "actors/shell/host.hpp"
#include "agent/inventory.hpp"
#include "agent/launcher.hpp"
#include "agent/nvml.hpp"
#include "cluster/link/zmq_link.hpp"
#include "cluster/store/sqlite_store.hpp"
#include "config/settings.hpp"

namespace ebb::agent {
namespace {

constexpr const char* kShard = "agent";
constexpr std::int64_t kMebibyte = 1 << 20;
constexpr auto kHealthEvery = std::chrono::seconds(30);
constexpr std::int64_t kJoinWaitMs = 30'000;

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "ebb-agent: " << why << std::endl;
  std::exit(1);
}
template <class T>
T need(Result<T> result) {
  if (!result) give_up(result.refusal().message);
  return std::move(*result);
}

struct Flags {
  config::AgentSettings settings;
  std::string join;  // directory
  std::string node_type;
  std::string host = "127.0.0.1";
  std::string cluster = "ebb";
};

Flags read_flags(int argc, char** argv) {
  Flags flags;
  config::AgentSettings given;
  std::string config_file;
  std::vector<std::string> declare;
  bool print_config = false;
  CLI::App app{"ebb-agent, starts pods on the nodes of this machine"};
  app.add_option("--config", config_file, "YAML file with settings; flags go before it");
  auto* data = app.add_option("--data", given.data_dir, "directory of store, logs, checkpoints");
  app.add_option("--join", flags.join,
                 "directory with ebbd's address and the keys of the link (ebbd's DATA/join)");
  auto* nodes = app.add_option("--declare", declare,
                               "nodes to present instead of those found, NODESxGPUS:MODEL, for "
                               "instance 16x8:A100; may be given several times");
  auto* prefix =
      app.add_option("--name-prefix", given.node_prefix, "name of nodes before their number");
  app.add_option("--node-type", flags.node_type, "node type; default MODELxGPUS, as A100x8");
  auto* group = app.add_option("--resource-group", given.resource_group, "resource group");
  auto* type = app.add_option("--resource-type", given.resource_type, "ECS or Lingjun");
  auto* cpu = app.add_option("--cpu", given.cpu_cores, "CPU cores of a node");
  auto* memory = app.add_option("--memory-mb", given.memory_mb, "memory of a node in MiB");
  app.add_option("--host", flags.host, "address at which others reach the ports of pods here");
  app.add_option("--cluster", flags.cluster, "name of the cluster, as ebbd has it");
  auto* level = app.add_option("--log-level", given.log_level, "trace, debug, info, warn, error");
  app.add_flag("--print-config", print_config, "print all settings and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  std::string text;
  if (!config_file.empty()) {
    std::ifstream file(config_file);
    if (!file) give_up("cannot read --config " + config_file);
    std::ostringstream content;
    content << file.rdbuf();
    text = content.str();
  }
  config::AgentSettings& settings = flags.settings;
  settings = need(config::read_agent_settings(text, config_file));
  if (*data) settings.data_dir = given.data_dir;
  if (*prefix) settings.node_prefix = given.node_prefix;
  if (*group) settings.resource_group = given.resource_group;
  if (*type) settings.resource_type = given.resource_type;
  if (*cpu) settings.cpu_cores = given.cpu_cores;
  if (*memory) settings.memory_mb = given.memory_mb;
  if (*level) settings.log_level = given.log_level;
  if (*nodes) {
    settings.declare.clear();
    for (const std::string& one : declare) settings.declare += one + " ";
  }
  need(config::check(settings));
  if (flags.join.empty()) {
    flags.join =
        (settings.server_data_dir.empty() ? settings.data_dir : settings.server_data_dir) + "/join";
  }
  if (print_config) {
    std::cout << config::printed(settings);
    std::exit(0);
  }
  return flags;
}

InventorySettings inventory_settings(const Flags& flags) {
  InventorySettings out;
  out.declarations = need(parse_declarations(flags.settings.declare));
  out.name_prefix = flags.settings.node_prefix;
  out.node_type = flags.node_type;
  out.resource_group = flags.settings.resource_group;
  out.resource_type = flags.settings.resource_type;
  out.host = flags.host;
  out.cpu_milli = flags.settings.cpu_cores * 1000;
  out.memory_bytes = flags.settings.memory_mb * kMebibyte;
  out.boot_id = read_boot_id();
  return out;
}

/// An agent that starts together with ebbd waits for ebbd's first word.
cluster::Join wait_for_join(const std::string& directory) {
  const std::int64_t end = cluster::Clock::mono_ms() + kJoinWaitMs;
  while (!std::filesystem::exists(directory + "/join") && cluster::Clock::mono_ms() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return need(cluster::read_join(directory));
}

/// ebbd's clock, where both share a machine: it may run faster than real time. Else real time.
cluster::Clock open_clock(const std::string& join_directory) {
  const std::string beside =
      std::filesystem::absolute(join_directory).lexically_normal().parent_path().string();
  if (!std::filesystem::exists(beside + "/clock")) return cluster::Clock();
  return need(cluster::Clock::open(beside, std::nullopt, std::nullopt));
}

std::string shim_beside_this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/ebb-shim";
}

v1::Record record_of(const v1::NodeFacts& facts) {
  v1::Record record;
  record.set_key("node/" + facts.node());
  record.set_kind("NodeFacts");
  facts.SerializeToString(record.mutable_body());
  return record;
}

bool holds_slot(const v1::Record& record) {
  v1::NodePodRecord saved;
  if (record.kind() != "NodePodRecord" || !saved.ParseFromString(record.body())) return false;
  return std::any_of(saved.pods().begin(), saved.pods().end(),
                     [](const auto& pod) { return !actors::is_over(pod.report().state()); });
}

/// Nodes of an earlier start that are not declared any more: one that still holds pods is presented
/// on, with what it was, so that they are looked after; of others nothing is kept. Answers the
/// records to be erased.
std::vector<v1::Record> settle_former_nodes(const std::vector<v1::Record>& saved,
                                            std::vector<v1::NodeFacts>* nodes) {
  std::set<std::string> named, holding;
  for (const v1::NodeFacts& facts : *nodes) named.insert("node/" + facts.node());
  for (const v1::Record& record : saved) {
    if (holds_slot(record)) holding.insert(std::string(actors::address_of_key(record.key())));
  }
  std::vector<v1::Record> erased;
  for (v1::Record record : saved) {
    const std::string address(actors::address_of_key(record.key()));
    if (named.count(address) != 0) continue;
    if (holding.count(address) == 0) {
      record.set_erased(true);
      erased.push_back(std::move(record));
      continue;
    }
    v1::NodeFacts facts;
    if (record.key() != address || !facts.ParseFromString(record.body())) continue;
    spdlog::warn("node is not declared any more but still holds pods node={}", facts.node());
    facts.set_boot_id(read_boot_id());
    nodes->push_back(std::move(facts));
  }
  return erased;
}

/// Looks at the GPUs again and again and tells the node which of them are faulty.
class HealthWatch {
 public:
  HealthWatch(std::unique_ptr<Nvml> nvml, std::string node, actors::Host& host)
      : nvml_(std::move(nvml)), node_(std::move(node)), host_(host), thread_([this] { run(); }) {}
  ~HealthWatch() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kHealthEvery, [this] { return stopping_; })) {
      v1::Envelope envelope;
      envelope.set_from("launcher/" + node_);
      envelope.set_to("node/" + node_);
      v1::GpuHealth* health = envelope.mutable_node()->mutable_gpu_health();
      const std::vector<FoundGpu> gpus = nvml_->gpus();
      for (std::uint32_t i = 0; i < gpus.size(); ++i) {
        if (!gpus[i].healthy) health->add_faulty_gpus(i);
      }
      host_.send(std::move(envelope));
    }
  }
  const std::unique_ptr<Nvml> nvml_;
  const std::string node_;
  actors::Host& host_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

int run(int argc, char** argv) {
  const Flags flags = read_flags(argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("ebb-agent"));
  spdlog::set_level(spdlog::level::from_str(flags.settings.log_level));
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  std::vector<v1::NodeFacts> nodes = need(take_inventory(inventory_settings(flags)));
  const cluster::Join join = wait_for_join(flags.join);
  const std::unique_ptr<cluster::Store> store =
      need(cluster::open_sqlite_store({.directory = flags.settings.data_dir}));

  actors::HostSettings host_settings;
  host_settings.cluster = flags.cluster;
  host_settings.shard = kShard;
  host_settings.process = "ebb-agent/" + std::to_string(::getpid());
  host_settings.reply_address = "agent/main";
  host_settings.threads = 1;
  host_settings.clock = open_clock(flags.join);
  actors::Host host(host_settings, *store);

  LauncherSettings launching;
  launching.data = flags.settings.data_dir;
  launching.shim_program = shim_beside_this_program();
  launching.boot_id = read_boot_id();
  launching.log_bytes_max = flags.settings.log_bytes_max;
  launching.log_files_max = static_cast<int>(flags.settings.log_files_max);
  std::vector<v1::Record> seed = settle_former_nodes(need(store->load(kShard, "")), &nodes);
  for (const v1::NodeFacts& facts : nodes) {
    launching.nodes.push_back(
        {facts.node(), facts.host(), {facts.gpu_ids().begin(), facts.gpu_ids().end()}});
    seed.push_back(record_of(facts));
  }
  std::shared_ptr<Launcher> launcher = need(Launcher::open(
      std::move(launching),
      [&host](const std::string& node, const v1::ProcessReport& report) {
        v1::Envelope envelope;
        envelope.set_from("launcher/" + node);
        envelope.set_to("node/" + node);
        *envelope.mutable_node()->mutable_process_report() = report;
        host.send(std::move(envelope));
      },
      [&host](const std::string& node, std::int64_t mono_ms) {
        v1::Envelope envelope;
        envelope.set_from("launcher/" + node);
        envelope.set_to("node/" + node);
        envelope.mutable_node()->mutable_last_contact()->set_mono_ms(mono_ms);
        host.send(std::move(envelope));
      }));
  for (const v1::NodeFacts& facts : nodes) {
    host.add_endpoint(
        "launcher/" + facts.node(),
        [weak = std::weak_ptr(launcher), node = facts.node()](cluster::EnvelopePtr envelope) {
          const auto strong = weak.lock();
          if (strong && envelope->has_launcher()) strong->order(node, envelope->launcher());
        });
  }
  if (!launcher->uses_cgroups()) {
    spdlog::info("no writable cgroup v2 hierarchy: leftovers are found by session and mark");
  }
  if (::geteuid() == 0) spdlog::warn("pods run as the agent's own user, root");

  const auto link = need(cluster::ZmqDialer::open(
      {.endpoint = join.endpoint,
       .server_public_key = join.server_public_key,
       .key = join.key,
       .addresses = [&host] { return host.addresses(); },
       .cluster = flags.cluster},
      [&host](cluster::EnvelopePtr envelope) { host.deliver(std::move(envelope)); }));
  host.use(link);
  need(host.start(std::move(seed)));
  link->greet();

  std::unique_ptr<HealthWatch> health;
  if (flags.settings.declare.empty()) {
    health = std::make_unique<HealthWatch>(need(Nvml::open()), nodes.front().node(), host);
  }
  std::cout << "ebb-agent ready nodes=" << nodes.size() << " server=" << join.endpoint << std::endl;
  int signal = 0;
  sigwait(&stop_signals, &signal);
  spdlog::info("ebb-agent stops signal={}", signal);
  health.reset();
  link->stop();
  launcher.reset();  // before the host, to which it reports
  return 0;
}

}  // namespace
}  // namespace ebb::agent

int main(int argc, char** argv) {
  try {
    return ebb::agent::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "ebb-agent: " << error.what() << std::endl;
    return 1;
  }
}
