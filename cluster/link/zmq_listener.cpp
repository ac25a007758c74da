#include <spdlog/spdlog.h>

#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "cluster/clock.hpp"
#include "cluster/link/allow_list.hpp"
#include "cluster/link/outbox.hpp"
#include "cluster/link/wire.hpp"
#include "cluster/link/zap.hpp"
#include "cluster/link/zmq_link.hpp"

namespace ebb::cluster {
namespace {
/// How many messages are received before what is to be sent gets its turn.
constexpr int kReceivedInARow = 256;
/// ZMQ_ZAP_ENFORCE_DOMAIN: the library has it, its header names it only with the draft interface.
constexpr int kZapEnforceDomain = 93;
}  // namespace

class ZmqListener::Inside {
 public:
  Inside(const ListenSettings& settings, std::unique_ptr<AllowList> allowed, Received received)
      : cluster_(settings.cluster),
        allowed_(std::move(allowed)),
        received_(std::move(received)),
        outbox_(kOutboxMax),
        zap_(std::make_unique<ZapHandler>(context_, *allowed_)),
        socket_(context_, zmq::socket_type::router) {
    set_bounds(socket_);
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::zap_domain, kZapDomain);
    const int enforce = 1;
    EBB_ASSERT(zmq_setsockopt(socket_.handle(), kZapEnforceDomain, &enforce, sizeof enforce) == 0);
    socket_.set(zmq::sockopt::curve_server, true);
    socket_.set(zmq::sockopt::curve_secretkey, settings.key.secret_key);
    socket_.bind(settings.endpoint);
    endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
    thread_ = std::thread([this] { run(); });
  }

  ~Inside() { stop(); }

  void stop() {
    stopping_ = true;
    outbox_.wake();
    if (thread_.joinable()) thread_.join();
    socket_.close();
  }

  bool send(const EnvelopePtr& envelope) {
    if (!knows(envelope->to())) {
      ++counters_.no_route;
      return false;
    }
    if (!outbox_.put({envelope->to(), wire_form(kEnvelopeByte, *envelope)})) ++counters_.queue_full;
    return true;
  }

  bool knows(const std::string& address) const {
    std::lock_guard lock(mutex_);
    const auto found = routes_.find(address);
    return found != routes_.end() &&
           found->second.heard_mono_ms > Clock::mono_ms() - kRouteForgottenMs;
  }

  const std::string& endpoint() const { return endpoint_; }
  LinkCounters counters() const { return counters_.values(); }

 private:
  struct Route {
    std::string routing_id;
    std::string public_key;
    std::int64_t heard_mono_ms = 0;
  };

  void run() {
    zmq::pollitem_t items[] = {{socket_.handle(), 0, ZMQ_POLLIN, 0},
                               {nullptr, outbox_.fd(), ZMQ_POLLIN, 0}};
    while (!stopping_) {
      try {
        zmq::poll(items, 2, std::chrono::milliseconds(1'000));
        for (int i = 0; i < kReceivedInARow && receive(); ++i) {
        }
        for (const Outgoing& message : outbox_.take()) transmit(message);
      } catch (const zmq::error_t& error) {
        if (error.num() != EINTR) spdlog::error("link failed reason={}", error.what());
      }
    }
  }

  /// False: nothing more is there.
  bool receive() {
    zmq::message_t routing_id, body;
    if (!socket_.recv(routing_id, zmq::recv_flags::dontwait)) return false;
    bool more = routing_id.more();
    if (more) {
      (void)socket_.recv(body);
      more = body.more();
    }
    bool extra = more;
    while (more) {
      zmq::message_t rest;
      (void)socket_.recv(rest);
      more = rest.more();
    }
    if (body.size() == 0 || extra) return refuse_content("it is not of two frames"), true;
    accept(routing_id.to_string(), body);
    return true;
  }

  void accept(const std::string& routing_id, const zmq::message_t& body) {
    const char* user = zmq_msg_gets(const_cast<zmq_msg_t*>(body.handle()), "User-Id");
    const auto peer = user == nullptr ? nullptr : allowed_->find(user);
    if (!peer) {
      if (user != nullptr) forget_key(user);
      if (count_and_log(counters_.refused_key)) {
        spdlog::warn("message refused reason=key_not_allowed key={} total={}",
                     user == nullptr ? "none" : user, counters_.refused_key.load());
      }
      return;
    }
    switch (*body.data<char>()) {
      case kHelloByte:
        return on_hello(*peer, routing_id, body);
      case kEnvelopeByte:
        return on_envelope(*peer, body);
      default:
        return refuse_content("its first byte is unknown");
    }
  }

  void on_hello(const Peer& peer, const std::string& routing_id, const zmq::message_t& body) {
    v1::Hello hello;
    const std::string_view content = content_of(body);
    if (!hello.ParseFromArray(content.data(), static_cast<int>(content.size()))) {
      return refuse_content("its hello cannot be read");
    }
    if (hello.cluster() != cluster_) return refuse_from(peer, "cluster " + hello.cluster());
    const std::int64_t now = Clock::mono_ms();
    for (const std::string& address : hello.addresses()) {
      if (!peer.may_speak_as(address)) {
        refuse_from(peer, address);
        continue;
      }
      std::lock_guard lock(mutex_);
      Route& route = routes_[address];
      const bool fresh = route.heard_mono_ms > now - kRouteForgottenMs;
      if (fresh && route.public_key != peer.public_key && allowed_->find(route.public_key)) {
        spdlog::warn("route refused address={} peer={} reason=another_peer_has_it", address,
                     peer.name);
        continue;
      }
      if (route.routing_id != routing_id) {
        spdlog::info("route address={} peer={}", address, peer.name);
      }
      route = {routing_id, peer.public_key, now};
    }
  }

  void on_envelope(const Peer& peer, const zmq::message_t& body) {
    auto envelope = std::make_shared<v1::Envelope>();
    const std::string_view content = content_of(body);
    if (!envelope->ParseFromArray(content.data(), static_cast<int>(content.size()))) {
      return refuse_content("its envelope cannot be read");
    }
    if (envelope->cluster() != cluster_) return refuse_from(peer, "cluster " + envelope->cluster());
    if (!peer.may_speak_as(envelope->from())) return refuse_from(peer, envelope->from());
    if (!is_said_by_nodes(*envelope)) {
      return refuse_content("a node may not say this: " + envelope->from() + " to " +
                            envelope->to());
    }
    ++counters_.received;
    received_(std::move(envelope));
  }

  void transmit(const Outgoing& message) {
    std::string routing_id;
    {
      std::lock_guard lock(mutex_);
      const auto found = routes_.find(message.to);
      if (found == routes_.end()) {
        ++counters_.no_route;
        return;
      }
      if (!allowed_->find(found->second.public_key)) {
        routes_.erase(found);
        ++counters_.no_route;
        return;
      }
      routing_id = found->second.routing_id;
    }
    try {
      if (!socket_.send(zmq::buffer(routing_id),
                        zmq::send_flags::sndmore | zmq::send_flags::dontwait) ||
          !socket_.send(zmq::buffer(message.bytes), zmq::send_flags::dontwait)) {
        ++counters_.queue_full;
        return;
      }
      ++counters_.sent;
    } catch (const zmq::error_t& error) {
      if (error.num() != EHOSTUNREACH) throw;
      ++counters_.no_route;
      std::lock_guard lock(mutex_);
      std::erase_if(routes_, [&](const auto& r) { return r.second.routing_id == routing_id; });
    }
  }

  void forget_key(const std::string& public_key) {
    std::lock_guard lock(mutex_);
    std::erase_if(routes_,
                  [&](const auto& route) { return route.second.public_key == public_key; });
  }

  void refuse_from(const Peer& peer, const std::string& as) {
    if (!count_and_log(counters_.refused_from)) return;
    spdlog::warn("message refused reason=outside_scope peer={} as={} total={}", peer.name, as,
                 counters_.refused_from.load());
  }
  void refuse_content(const std::string& why) {
    if (!count_and_log(counters_.refused_content)) return;
    spdlog::warn("message refused reason=\"{}\" total={}", why, counters_.refused_content.load());
  }

  const std::string cluster_;
  const std::unique_ptr<AllowList> allowed_;
  const Received received_;
  Counters counters_;
  Outbox outbox_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Route> routes_;
  std::atomic<bool> stopping_ = false;
  zmq::context_t context_;
  std::unique_ptr<ZapHandler> zap_;
  zmq::socket_t socket_;
  std::string endpoint_;
  std::thread thread_;
};

ZmqListener::ZmqListener(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
ZmqListener::~ZmqListener() = default;

Result<std::shared_ptr<ZmqListener>> ZmqListener::open(const ListenSettings& settings,
                                                       Received received) {
  auto allowed = AllowList::open(settings.allow_directory);
  if (!allowed) return allowed.refusal();
  try {
    return std::shared_ptr<ZmqListener>(new ZmqListener(
        std::make_unique<Inside>(settings, std::move(*allowed), std::move(received))));
  } catch (const zmq::error_t& error) {
    return Refusal{"Link", "cannot listen on " + settings.endpoint + ": " + error.what(), 500};
  }
}

bool ZmqListener::send(EnvelopePtr envelope) { return inside_->send(envelope); }
void ZmqListener::stop() { inside_->stop(); }
const std::string& ZmqListener::endpoint() const { return inside_->endpoint(); }
bool ZmqListener::knows(const std::string& address) const { return inside_->knows(address); }
LinkCounters ZmqListener::counters() const { return inside_->counters(); }

}  // namespace ebb::cluster
