// Who sends a request. The one place for it: bearer tokens, and signatures ACS3-HMAC-SHA256.
//
// Errors: refusals with 401 that do not tell whether key or signature was wrong.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "gateway/gateway.hpp"

namespace ebb::gateway {

/// A request as it came. Header names in lower case; path not decoded; query decoded.
struct HttpRequest {
  std::string method;
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
  std::map<std::string, std::string> headers;
  std::string body;

  std::string header(const std::string& name) const;
};

/// Who asks.
struct Caller {
  std::string user;
};

class Authentication {
 public:
  Authentication(std::string admin_token, std::vector<AccessKey> keys);
  /// `now_ms`: real time, which the date of a signature is compared with (not the cluster's clock).
  Result<Caller> caller_of(const HttpRequest& request, std::int64_t now_ms);

 private:
  Result<Caller> caller_of_signature(const HttpRequest& request, const std::string& authorization,
                                     std::int64_t now_ms);
  /// False if the nonce was used within the time in which a signature is valid.
  bool take_nonce(const std::string& nonce, std::int64_t now_ms);

  std::string admin_token_;
  std::vector<AccessKey> keys_;
  std::mutex nonces_mutex_;
  std::map<std::string, std::int64_t> nonces_;  // until when
};

/// The canonical request of ACS3-HMAC-SHA256 for these signed headers (names in lower case,
/// sorted).
std::string canonical_request(const HttpRequest& request,
                              const std::vector<std::string>& signed_headers,
                              const std::string& body_sha256);
std::string sha256_hex(const std::string& text);
std::string hmac_sha256_hex(const std::string& secret, const std::string& text);

}  // namespace ebb::gateway
