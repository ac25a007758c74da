#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "cluster/clock.hpp"
#include "cluster/link/outbox.hpp"
#include "cluster/link/wire.hpp"
#include "cluster/link/zmq_link.hpp"

namespace ebb::cluster {
namespace {
constexpr int kReceivedInARow = 256;
constexpr std::int64_t kHelloRetryMs = 20;
/// The library gives up a connection whose handshake was refused; we try again, the key may be
/// allowed by then.
constexpr std::int64_t kRefusedRetryMs = 500;
constexpr std::int64_t kSilentRetryMs = 7'000;  // longer than a handshake may take
constexpr const char* kMonitor = "inproc://ebb.dialer.monitor";
}  // namespace

class ZmqDialer::Inside {
 public:
  Inside(const DialSettings& settings, Received received)
      : settings_(settings),
        received_(std::move(received)),
        outbox_(kOutboxMax),
        socket_(context_, zmq::socket_type::dealer),
        monitor_(context_, zmq::socket_type::pair) {
    set_bounds(socket_);
    // Only to a peer that has shown its key: what is said meanwhile is lost, not kept for who knows
    // whom.
    socket_.set(zmq::sockopt::immediate, true);
    socket_.set(zmq::sockopt::reconnect_ivl, 100);
    socket_.set(zmq::sockopt::reconnect_ivl_max, 1'000);
    socket_.set(zmq::sockopt::curve_serverkey, settings.server_public_key);
    socket_.set(zmq::sockopt::curve_publickey, settings.key.public_key);
    socket_.set(zmq::sockopt::curve_secretkey, settings.key.secret_key);
    if (zmq_socket_monitor(socket_.handle(), kMonitor,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                               ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_DISCONNECTED) != 0) {
      throw zmq::error_t();
    }
    monitor_.set(zmq::sockopt::linger, 0);
    monitor_.connect(kMonitor);
    connect_again();
    thread_ = std::thread([this] { run(); });
  }
  ~Inside() { stop(); }

  void stop() {
    stopping_ = true;
    outbox_.wake();
    if (thread_.joinable()) thread_.join();
    zmq_socket_monitor(socket_.handle(), nullptr, 0);
    monitor_.close();
    socket_.close();
  }

  bool send(const EnvelopePtr& envelope) {
    if (!outbox_.put({{}, wire_form(kEnvelopeByte, *envelope)})) ++counters_.queue_full;
    return true;
  }
  void greet() {
    greet_now_ = true;
    outbox_.wake();
  }
  bool is_connected() const { return connected_; }
  LinkCounters counters() const { return counters_.values(); }

 private:
  void run() {
    zmq::pollitem_t items[] = {{socket_.handle(), 0, ZMQ_POLLIN, 0},
                               {monitor_.handle(), 0, ZMQ_POLLIN, 0},
                               {nullptr, outbox_.fd(), ZMQ_POLLIN, 0}};
    std::int64_t hello_at = 0;
    while (!stopping_) {
      try {
        const std::int64_t next = connected_ ? hello_at : std::min(hello_at, connect_at_);
        const std::int64_t wait = std::max<std::int64_t>(0, next - Clock::mono_ms());
        zmq::poll(items, 3, std::chrono::milliseconds(wait));
        const bool arrived = look_at_monitor();
        if (!connected_ && Clock::mono_ms() >= connect_at_) connect_again();
        if (greet_now_.exchange(false) || arrived || Clock::mono_ms() >= hello_at) {
          const bool told = hello();
          hello_at = Clock::mono_ms() + (connected_ && !told ? kHelloRetryMs : kHelloEveryMs);
        }
        for (int i = 0; i < kReceivedInARow && receive(); ++i) {
        }
        for (const Outgoing& message : outbox_.take()) transmit(message.bytes);
      } catch (const zmq::error_t& error) {
        if (error.num() != EINTR) spdlog::error("link failed reason={}", error.what());
      }
    }
  }

  void connect_again() {
    if (const std::string last = socket_.get(zmq::sockopt::last_endpoint); !last.empty()) {
      zmq_disconnect(socket_.handle(), last.c_str());  // may have ended by itself
    }
    socket_.connect(settings_.endpoint);
    connect_at_ = Clock::mono_ms() + kSilentRetryMs;
  }

  /// True: connected anew.
  bool look_at_monitor() {
    bool arrived = false;
    zmq::message_t event, address;
    while (monitor_.recv(event, zmq::recv_flags::dontwait)) {
      (void)monitor_.recv(address);
      std::uint16_t kind = 0;
      std::memcpy(&kind, event.data(), sizeof kind);
      if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
        connected_ = arrived = true;
        spdlog::info("link connected to={}", settings_.endpoint);
      } else if (kind != ZMQ_EVENT_DISCONNECTED) {
        if (count_and_log(counters_.refused_key)) {
          spdlog::warn("link refused to={} reason=key_not_allowed_or_wrong_server_key key={}",
                       settings_.endpoint, settings_.key.public_key);
        }
        connect_at_ = std::min(connect_at_, Clock::mono_ms() + kRefusedRetryMs);
      } else {
        if (connected_) {
          spdlog::warn("link lost to={}", settings_.endpoint);
          connect_at_ = Clock::mono_ms() + kSilentRetryMs;
        }
        connected_ = arrived = false;
      }
    }
    return arrived;
  }

  bool hello() {
    v1::Hello hello;
    hello.set_cluster(settings_.cluster);
    for (std::string& address : settings_.addresses()) hello.add_addresses(std::move(address));
    return transmit(wire_form(kHelloByte, hello));
  }

  bool transmit(const std::string& bytes) {
    if (socket_.send(zmq::buffer(bytes), zmq::send_flags::dontwait)) {
      ++counters_.sent;
      return true;
    }
    ++(connected_ ? counters_.queue_full : counters_.no_route);
    return false;
  }

  bool receive() {
    zmq::message_t body;
    if (!socket_.recv(body, zmq::recv_flags::dontwait)) return false;
    bool more = body.more();
    const bool extra = more;
    while (more) {
      zmq::message_t rest;
      (void)socket_.recv(rest);
      more = rest.more();
    }
    auto envelope = std::make_shared<v1::Envelope>();
    const bool good =
        !extra && body.size() > 0 && *body.data<char>() == kEnvelopeByte &&
        envelope->ParseFromArray(body.data<char>() + 1, static_cast<int>(body.size()) - 1);
    if (!good) {
      if (count_and_log(counters_.refused_content))
        spdlog::warn("message refused reason=unreadable");
    } else if (envelope->cluster() != settings_.cluster) {
      if (count_and_log(counters_.refused_from)) {
        spdlog::warn("message refused reason=other_cluster cluster={}", envelope->cluster());
      }
    } else {
      ++counters_.received;
      received_(std::move(envelope));
    }
    return true;
  }

  const DialSettings settings_;
  const Received received_;
  Counters counters_;
  Outbox outbox_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> connected_ = false;
  std::atomic<bool> greet_now_ = false;
  zmq::context_t context_;
  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  std::int64_t connect_at_ = 0;  // if not connected by then
  std::thread thread_;
};

ZmqDialer::ZmqDialer(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
ZmqDialer::~ZmqDialer() = default;

Result<std::shared_ptr<ZmqDialer>> ZmqDialer::open(const DialSettings& settings,
                                                   Received received) {
  if (!is_key(settings.server_public_key) || !is_key(settings.key.public_key) ||
      !is_key(settings.key.secret_key)) {
    return Refusal{"Link", "a key of the link is not of 40 Z85 characters", 500};
  }
  try {
    return std::shared_ptr<ZmqDialer>(
        new ZmqDialer(std::make_unique<Inside>(settings, std::move(received))));
  } catch (const zmq::error_t& error) {
    return Refusal{"Link", "cannot connect to " + settings.endpoint + ": " + error.what(), 500};
  }
}

bool ZmqDialer::send(EnvelopePtr envelope) { return inside_->send(envelope); }
void ZmqDialer::stop() { inside_->stop(); }
void ZmqDialer::greet() { inside_->greet(); }
bool ZmqDialer::is_connected() const { return inside_->is_connected(); }
LinkCounters ZmqDialer::counters() const { return inside_->counters(); }

}  // namespace ebb::cluster
