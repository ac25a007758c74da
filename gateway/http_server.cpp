// RESTinio's side of the gateway; the only unit that includes it.
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <restinio/all.hpp>
#include <stdexcept>
#include <thread>

#include "gateway/authentication.hpp"
#include "gateway/desk.hpp"
#include "gateway/dispatcher.hpp"
#include "gateway/gateway.hpp"
#include "gateway/projection.hpp"

namespace ebb::gateway {
namespace {

namespace asio = restinio::asio_ns;

constexpr std::size_t kHeaderBytesMax = 16'384;
constexpr std::size_t kHeadersMax = 100;
constexpr std::size_t kUrlBytesMax = 8'192;
// A body above its limit gets an answer that says so; far above it the connection is cut.
constexpr std::uint64_t kBodyCutBytes = 4 * kBodyBytesMax;

/// Counts connections by address, so that one address cannot take them all.
class AddressCounter {
 public:
  explicit AddressCounter(std::size_t at_most) : at_most_(at_most) {}
  bool has_room(const std::string& address) {
    const std::scoped_lock lock(mutex_);
    const auto it = open_.find(address);
    return it == open_.end() || it->second < at_most_;
  }
  void opened(restinio::connection_id_t id, std::string address) {
    const std::scoped_lock lock(mutex_);
    ++open_[address];
    connections_[id] = std::move(address);
  }
  void closed(restinio::connection_id_t id) {
    const std::scoped_lock lock(mutex_);
    const auto it = connections_.find(id);
    if (it == connections_.end()) return;
    if (--open_[it->second] == 0) open_.erase(it->second);
    connections_.erase(it);
  }

 private:
  std::mutex mutex_;
  std::size_t at_most_;
  std::map<std::string, std::size_t> open_;
  std::map<restinio::connection_id_t, std::string> connections_;
};

class Listener {
 public:
  explicit Listener(std::shared_ptr<AddressCounter> counter) : counter_(std::move(counter)) {}
  void state_changed(const restinio::connection_state::notice_t& notice) noexcept {
    if (std::holds_alternative<restinio::connection_state::accepted_t>(notice.cause())) {
      counter_->opened(notice.connection_id(), notice.remote_endpoint().address().to_string());
    } else if (std::holds_alternative<restinio::connection_state::closed_t>(notice.cause())) {
      counter_->closed(notice.connection_id());
    }
  }

 private:
  std::shared_ptr<AddressCounter> counter_;
};

class Blocker {
 public:
  explicit Blocker(std::shared_ptr<AddressCounter> counter) : counter_(std::move(counter)) {}
  restinio::ip_blocker::inspection_result_t inspect(
      const restinio::ip_blocker::incoming_info_t& info) noexcept {
    return counter_->has_room(info.remote_endpoint().address().to_string())
               ? restinio::ip_blocker::allow()
               : restinio::ip_blocker::deny();
  }

 private:
  std::shared_ptr<AddressCounter> counter_;
};

struct Traits
    : restinio::traits_t<
          restinio::asio_timer_manager_t, restinio::null_logger_t,
          std::function<restinio::request_handling_status_t(const restinio::request_handle_t&)>> {
  static constexpr bool use_connection_count_limiter = true;
  using connection_state_listener_t = Listener;
  using ip_blocker_t = Blocker;
};

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Null with a refusal where the request is malformed.
Result<HttpRequest> request_of(const restinio::request_t& raw) {
  HttpRequest request;
  const auto& header = raw.header();
  request.method = std::string(header.method().c_str());
  request.path = std::string(header.path());
  request.body = raw.body();
  if (request.path.empty() || request.path[0] != '/') {
    return Refusal{"InvalidRequest", "the request target must be a path", 400};
  }
  std::size_t header_bytes = 0;
  bool twice = false;
  header.for_each_field([&](const restinio::http_header_field_t& field) {
    header_bytes += field.name().size() + field.value().size() + 4;
    twice |= !request.headers.emplace(lower(field.name()), field.value()).second;
  });
  if (header_bytes > kHeaderBytesMax) {
    return Refusal{"RequestTooLarge", "the headers have more than 16384 bytes", 431};
  }
  if (twice) return Refusal{"InvalidRequest", "a header comes twice", 400};
  const std::string query(header.query());
  std::size_t at = 0;
  while (at < query.size()) {
    const std::size_t end = std::min(query.find('&', at), query.size());
    const std::string pair = query.substr(at, end - at);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = api::percent_decoded(pair.substr(0, equals), true);
    auto value = api::percent_decoded(equals < pair.size() ? pair.substr(equals + 1) : "", true);
    if (!name || !value) return Refusal{"InvalidRequest", "the query is not percent-encoded", 400};
    if (!name->empty()) request.query.emplace_back(std::move(*name), std::move(*value));
    at = end + 1;
  }
  return request;
}

restinio::http_status_line_t status_line(int status) {
  static const std::map<int, const char*> kReasons = {{200, "OK"},
                                                      {400, "Bad Request"},
                                                      {401, "Unauthorized"},
                                                      {403, "Forbidden"},
                                                      {404, "Not Found"},
                                                      {405, "Method Not Allowed"},
                                                      {409, "Conflict"},
                                                      {413, "Content Too Large"},
                                                      {431, "Request Header Fields Too Large"},
                                                      {500, "Internal Server Error"},
                                                      {501, "Not Implemented"},
                                                      {503, "Service Unavailable"},
                                                      {504, "Gateway Timeout"}};
  const auto it = kReasons.find(status);
  return {restinio::http_status_code_t{static_cast<std::uint16_t>(status)},
          it == kReasons.end() ? "Status" : it->second};
}

void respond(const restinio::request_handle_t& raw, const HttpAnswer& answer) {
  raw->create_response(status_line(answer.status))
      .append_header(restinio::http_field::content_type, "application/json; charset=utf-8")
      .append_header(restinio::http_field::cache_control, "no-store")
      .append_header("X-Content-Type-Options", "nosniff")
      .append_header("x-acs-request-id", answer.request_id)
      .set_body(answer.body)
      .done();
}

/// Clients that sign their requests use the administrator's token as the secret of the key `admin`.
std::vector<AccessKey> keys_of(const GatewaySettings& settings) {
  std::vector<AccessKey> keys = settings.access_keys;
  keys.push_back({"admin", settings.token, "admin"});
  return keys;
}

std::int64_t real_time_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Requests under way: the gateway stops when the last one is answered.
class UnderWay {
 public:
  void begin() {
    const std::scoped_lock lock(mutex_);
    ++count_;
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }
  void wait_for_none() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  std::size_t count_ = 0;
};

/// What waits in it can be let go of before it ends: connections that are kept open refer to the
/// server, which itself refers to this.
class IoContext : public asio::io_context {
 public:
  void let_go() { shutdown(); }
};

class RestinioGateway : public Gateway {
 public:
  RestinioGateway(const GatewaySettings& settings, cluster::Post& post)
      : lists_(post.store()),
        desk_(
            post, lists_, [this](std::function<void()> work) { asio::post(io_, std::move(work)); },
            settings.reply_timeout_ms),
        authentication_(settings.token, keys_of(settings)),
        dispatcher_(desk_, authentication_),
        counter_(std::make_shared<AddressCounter>(settings.connections_per_address_max)),
        server_(restinio::external_io_context(io_), server_settings(settings)),
        work_(asio::make_work_guard(io_)) {
    for (std::size_t i = 0; i < settings.threads; ++i) {
      threads_.emplace_back([this] { io_.run(); });
    }
    try {
      server_.open_sync();
    } catch (const std::exception& error) {
      stop_threads();
      throw std::runtime_error("gateway cannot listen on " + settings.address + ":" +
                               std::to_string(settings.port) + ": " + error.what());
    }
  }

  ~RestinioGateway() override {
    stopping_ = true;
    under_way_.wait_for_none();
    server_.close_sync();
    stop_threads();
    io_.let_go();
  }

  std::uint16_t port() const override { return port_; }

 private:
  restinio::server_settings_t<Traits> server_settings(const GatewaySettings& settings) {
    using namespace std::chrono_literals;
    restinio::server_settings_t<Traits> out;
    out.address(settings.address)
        .port(settings.port)
        .read_next_http_message_timelimit(60s)
        .handle_request_timeout(std::chrono::milliseconds(3 * settings.reply_timeout_ms))
        .write_http_response_timelimit(10s)
        .max_parallel_connections(settings.connections_max)
        .incoming_http_msg_limits(restinio::incoming_http_msg_limits_t{}
                                      .max_url_size(kUrlBytesMax)
                                      .max_field_name_size(256)
                                      .max_field_value_size(kHeaderBytesMax)
                                      .max_field_count(kHeadersMax)
                                      .max_body_size(kBodyCutBytes))
        .acceptor_options_setter([](restinio::acceptor_options_t& options) {
          options.set_option(asio::ip::tcp::acceptor::reuse_address(true));
        })
        .acceptor_post_bind_hook(
            [this](asio::ip::tcp::acceptor& acceptor) { port_ = acceptor.local_endpoint().port(); })
        .connection_state_listener(std::make_shared<Listener>(counter_))
        .ip_blocker(std::make_shared<Blocker>(counter_))
        .request_handler([this](const restinio::request_handle_t& raw) { return handle(raw); });
    return out;
  }

  restinio::request_handling_status_t handle(const restinio::request_handle_t& raw) {
    under_way_.begin();
    if (stopping_) {
      respond(raw, answer_of({"ServiceUnavailable", "the gateway is stopping", 503}));
      under_way_.end();
      return restinio::request_accepted();
    }
    auto request = request_of(*raw);
    if (!request) {
      respond(raw, answer_of(request.refusal()));
      under_way_.end();
      return restinio::request_accepted();
    }
    dispatcher_.dispatch(*request, real_time_ms(), [this, raw](const HttpAnswer& answer) {
      respond(raw, answer);
      under_way_.end();
    });
    return restinio::request_accepted();
  }

  void stop_threads() {
    work_.reset();
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  IoContext io_;
  Projection lists_;
  Desk desk_;
  Authentication authentication_;
  Dispatcher dispatcher_;
  UnderWay under_way_;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint16_t> port_ = 0;
  std::shared_ptr<AddressCounter> counter_;
  restinio::http_server_t<Traits> server_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Gateway> start_gateway(const GatewaySettings& settings, cluster::Post& post) {
  if (settings.token.empty()) throw std::runtime_error("gateway: the token must not be empty");
  if (settings.threads == 0) throw std::runtime_error("gateway: at least one thread is needed");
  return std::make_unique<RestinioGateway>(settings, post);
}

}  // namespace ebb::gateway
