// The gateway: HTTP with the API's public operations in, commands to actors out.
//
// Requests are answered when the actor's reply arrives; no thread waits for one. Limits:
// RELIABILITY 4.6. Errors: start_gateway throws std::runtime_error where the port cannot be had or
// the settings are wrong.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/post.hpp"

namespace ebb::gateway {

/// A key pair for ACS3-HMAC-SHA256 signatures.
struct AccessKey {
  std::string id;
  std::string secret;
  std::string user;
};

struct GatewaySettings {
  std::string address = "127.0.0.1";
  std::uint16_t port = 7070;  // 0: any free one
  std::string token;          // of the tenant's administrator; also the secret of the key `admin`
  std::vector<AccessKey> access_keys;
  std::size_t threads = 2;
  std::int64_t reply_timeout_ms = 10'000;
  std::size_t connections_max = 1'024;
  std::size_t connections_per_address_max = 64;
};

class Gateway {
 public:
  /// Stops: takes no new requests, waits for those under way.
  virtual ~Gateway() = default;
  virtual std::uint16_t port() const = 0;
};

std::unique_ptr<Gateway> start_gateway(const GatewaySettings& settings, cluster::Post& post);

}  // namespace ebb::gateway
