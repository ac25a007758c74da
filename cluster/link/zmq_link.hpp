// Links over ZeroMQ with CURVE: ebbd listens (ROUTER), agents connect outwards (DEALER).
//
// Security: a peer is who its key is (User-Id, from ZAP). The allow-list is asked for every
// message, so a revoked key's next message is refused, and nothing is sent to it any more. A peer
// may speak only as a node of its scope, and say only what nodes say. The routing id decides
// nothing. Bounds: messages of 1 MiB, kQueuedMax messages per peer and direction. What goes beyond
// is lost; machines repeat. Source: RELIABILITY.md 4.3.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cluster/link/keys.hpp"
#include "cluster/link/link.hpp"

namespace ebb::cluster {

inline constexpr int kQueuedMax = 8192;
inline constexpr std::int64_t kMessageBytesMax = 1 << 20;
inline constexpr std::int64_t kHelloEveryMs = 2'000;
/// A route nobody has confirmed for so long is forgotten.
inline constexpr std::int64_t kRouteForgottenMs = 10'000;

struct LinkCounters {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t no_route = 0;      // not sent: nobody hosts the address
  std::uint64_t queue_full = 0;    // not sent: lost
  std::uint64_t refused_key = 0;   // received from a key that is no longer allowed
  std::uint64_t refused_from = 0;  // received in another's name, or for another cluster
  std::uint64_t refused_content =
      0;  // received, and cannot be read or is not for such a peer to say
};

struct ListenSettings {
  std::string endpoint;  // "tcp://127.0.0.1:7001"; port 0 or *: any free one
  KeyPair key;
  std::string allow_directory;
  std::string cluster = "ebb";
};

class ZmqListener : public Link {
 public:
  /// `received` is called from the link's thread; it must not wait.
  static Result<std::shared_ptr<ZmqListener>> open(const ListenSettings& settings,
                                                   Received received);
  ~ZmqListener() override;
  bool send(EnvelopePtr envelope) override;
  /// Ends the link's thread: nothing is received or sent after it.
  void stop();
  /// With the real port.
  const std::string& endpoint() const;
  bool knows(const std::string& address) const;
  LinkCounters counters() const;

 private:
  class Inside;
  explicit ZmqListener(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

struct DialSettings {
  std::string endpoint;
  std::string server_public_key;
  KeyPair key;
  /// What can be reached over this link now: the nodes here. Called from the link's thread.
  std::function<std::vector<std::string>()> addresses;
  std::string cluster = "ebb";
};

class ZmqDialer : public Link {
 public:
  static Result<std::shared_ptr<ZmqDialer>> open(const DialSettings& settings, Received received);
  ~ZmqDialer() override;
  /// Everything goes to ebbd. True also while there is no connection; the message is then lost.
  bool send(EnvelopePtr envelope) override;
  void stop();
  /// Tells ebbd at once which addresses are here, instead of within two seconds.
  void greet();
  bool is_connected() const;
  LinkCounters counters() const;

 private:
  class Inside;
  explicit ZmqDialer(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

}  // namespace ebb::cluster
