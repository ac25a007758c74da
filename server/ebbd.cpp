// ebbd: hosts the machines, keeps their records, answers HTTP, and is where agents connect to.
//
// Prints one line `ebbd ready http=... link=...` when it accepts submits. SIGTERM and SIGINT stop
// it cleanly; running pods are not touched. Exit codes: 0 stopped, 1 could not start (with a
// sentence on stderr), 70 must not go on, 74 the store could not be synced.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>

#include "actors/shell/host.hpp"
#include "cluster/link/zmq_link.hpp"
#include "cluster/private_file.hpp"
#include "cluster/store/sqlite_store.hpp"
#include "config/settings.hpp"
#include "gateway/gateway.hpp"
#include "server/first_start.hpp"

namespace ebb::server {
namespace {

constexpr const char* kTenant = "tenant";

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "ebbd: " << why << std::endl;
  std::exit(1);
}
template <class T>
T need(Result<T> result) {
  if (!result) give_up(result.refusal().message);
  return std::move(*result);
}

struct Flags {
  std::string config_file;
  std::string listen;  // HOST:PORT
  std::string link;    // tcp://HOST:PORT
  bool print_config = false;
};

/// "127.0.0.1:7070", also with "tcp://" before it.
void read_endpoint(const char* flag, const std::string& text, std::string& host,
                   std::int64_t& port) {
  const std::string bare = text.starts_with("tcp://") ? text.substr(6) : text;
  const std::size_t colon = bare.rfind(':');
  const std::string digits = colon == std::string::npos ? "" : bare.substr(colon + 1);
  if (colon == 0 || digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != std::string::npos || std::stoi(digits) > 65'535) {
    give_up(std::string(flag) + " is \"" + text +
            "\", allowed is HOST:PORT with a port from 0 to 65535");
  }
  host = bare.substr(0, colon);
  port = std::stoi(digits);
}

config::ServerSettings read_settings(int argc, char** argv) {
  Flags flags;
  config::ServerSettings given;
  CLI::App app{"ebbd, the server of Ebb"};
  app.add_option("--config", flags.config_file, "YAML file with settings; flags go before it");
  auto* data = app.add_option("--data", given.data_dir, "directory of store, token and keys");
  app.add_option("--listen", flags.listen, "HOST:PORT of the HTTP interface");
  app.add_option("--link", flags.link, "tcp://HOST:PORT that agents connect to");
  auto* speed = app.add_option("--speed", given.clock_speed,
                               "how many times faster than real time the cluster's clock runs");
  auto* start = app.add_option("--clock-start", given.clock_start,
                               "what a new cluster clock shows first: 2026-03-02T07:30:00+08:00 "
                               "or 07:30+08:00 (today)");
  auto* level = app.add_option("--log-level", given.log_level, "trace, debug, info, warn, error");
  app.add_flag("--print-config", flags.print_config, "print all settings and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 1);  // 0: help was asked for
  }
  std::string text;
  if (!flags.config_file.empty()) {
    std::ifstream file(flags.config_file);
    if (!file) give_up("cannot read --config " + flags.config_file);
    std::ostringstream content;
    content << file.rdbuf();
    text = content.str();
  }
  config::ServerSettings settings = need(config::read_server_settings(text, flags.config_file));
  if (*data) settings.data_dir = given.data_dir;
  if (*speed) settings.clock_speed = given.clock_speed;
  if (*start) settings.clock_start = given.clock_start;
  if (*level) settings.log_level = given.log_level;
  if (!flags.listen.empty()) {
    read_endpoint("--listen", flags.listen, settings.http_address, settings.http_port);
  }
  if (!flags.link.empty()) {
    read_endpoint("--link", flags.link, settings.link_address, settings.link_port);
  }
  need(config::check(settings));
  if (flags.print_config) {
    std::cout << config::printed(settings);
    std::exit(0);
  }
  return settings;
}

cluster::Clock open_clock(const config::ServerSettings& settings) {
  std::optional<double> speed;
  std::optional<std::int64_t> start;
  // 1 is what stands there when nothing was said; a kept clock goes on as it was.
  if (settings.clock_speed != 1.0) speed = settings.clock_speed;
  if (!settings.clock_start.empty()) {
    start = need(cluster::parse_clock_start(settings.clock_start, cluster::Clock::real_ms()));
  }
  return need(cluster::Clock::open(settings.data_dir, speed, start));
}

/// The tenant is there from the first start on; everything else comes from commands to it.
void ensure_tenant(actors::Host& host) {
  if (host.hosts(kTenant)) return;
  v1::Record record;
  record.set_key(kTenant);
  record.set_kind("TenantRecord");
  record.set_body(v1::TenantRecord().SerializeAsString());
  std::promise<void> born;
  need(host.create({record}, [&] { born.set_value(); }));
  born.get_future().wait();
}

int run(int argc, char** argv) {
  const config::ServerSettings settings = read_settings(argc, argv);
  spdlog::set_default_logger(spdlog::stderr_logger_mt("ebbd"));
  spdlog::set_level(spdlog::level::from_str(settings.log_level));
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a full disk, not a reason to die
  // Before any thread starts, so that all of them leave the signals to sigwait below.
  sigset_t stop_signals;
  sigemptyset(&stop_signals);
  sigaddset(&stop_signals, SIGTERM);
  sigaddset(&stop_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);

  const std::string& data = settings.data_dir;
  const std::unique_ptr<cluster::Store> store =
      need(cluster::open_sqlite_store({.directory = data}));
  const std::string token = need(load_or_make_token(data));

  actors::HostSettings host_settings;
  host_settings.cluster = settings.cluster;
  host_settings.process = "ebbd/" + std::to_string(::getpid());
  host_settings.threads = static_cast<unsigned>(settings.machine_threads);
  host_settings.clock = open_clock(settings);
  const actors::Tuning tuning{.node_lost_after_ms = settings.node_lost_after_ms,
                              .stop_after_ms = settings.stop_after_ms};
  host_settings.factory = [tuning](actors::Context context,
                                   const std::vector<v1::Record>& records) {
    context.tuning = tuning;
    return actors::make_machine(context, records);
  };
  actors::Host host(host_settings, *store);
  need(host.start());
  ensure_tenant(host);

  const std::string allow_directory = data + "/allow";
  const cluster::KeyPair key = need(cluster::load_or_make_key_pair(data + "/link.key"));
  const std::string link_port = settings.link_port == 0 ? "*" : std::to_string(settings.link_port);
  const auto link = need(
      cluster::ZmqListener::open({.endpoint = "tcp://" + settings.link_address + ":" + link_port,
                                  .key = key,
                                  .allow_directory = allow_directory,
                                  .cluster = settings.cluster},
                                 [&host](cluster::EnvelopePtr e) { host.deliver(std::move(e)); }));
  host.use(link);
  need(prepare_join(data, allow_directory, link->endpoint(), key.public_key));

  gateway::GatewaySettings http;
  http.address = settings.http_address;
  http.port = static_cast<std::uint16_t>(settings.http_port);
  http.token = token;
  http.threads = static_cast<std::size_t>(settings.http_threads);
  http.reply_timeout_ms = settings.http_reply_timeout_ms;
  http.connections_max = static_cast<std::size_t>(settings.http_connections_max);
  http.connections_per_address_max =
      static_cast<std::size_t>(settings.http_connections_per_address_max);
  std::unique_ptr<gateway::Gateway> gateway = gateway::start_gateway(http, host);

  const std::string http_address = settings.http_address + ":" + std::to_string(gateway->port());
  // Where `ebb` finds this server when it is given the data directory alone.
  if (auto told = cluster::write_private_file(data + "/address", http_address + "\n"); !told) {
    spdlog::warn("address file not written why=\"{}\"", told.refusal().message);
  }
  std::cout << "ebbd ready http=" << http_address << " link=" << link->endpoint() << std::endl;
  int signal = 0;
  sigwait(&stop_signals, &signal);
  spdlog::info("ebbd stops signal={}", signal);
  gateway.reset();
  link->stop();
  return 0;
}

}  // namespace
}  // namespace ebb::server

int main(int argc, char** argv) {
  try {
    return ebb::server::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "ebbd: " << error.what() << std::endl;
    return 1;
  }
}
