#include "gateway/authentication.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "gateway/translation/common_json.hpp"

namespace ebb::gateway {
namespace {

constexpr std::int64_t kSignatureValidMs = 15 * 60'000;
constexpr std::size_t kNoncesMax = 100'000;
constexpr const char* kScheme = "ACS3-HMAC-SHA256";

Refusal refused(const char* code, const char* message) { return {code, message, 401}; }

bool same(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string hex(const unsigned char* bytes, std::size_t size) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text.push_back(kHex[bytes[i] >> 4]);
    text.push_back(kHex[bytes[i] & 15]);
  }
  return text;
}

std::string percent_encoded(const std::string& text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      out.push_back(c);
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at <= text.size()) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Host, content-type and every x-acs-* header that is there must be signed.
bool signs_enough(const HttpRequest& request, const std::vector<std::string>& names) {
  return std::all_of(request.headers.begin(), request.headers.end(), [&](const auto& header) {
    const std::string& name = header.first;
    const bool needed = name == "host" || name == "content-type" || name.starts_with("x-acs-");
    return !needed || std::find(names.begin(), names.end(), name) != names.end();
  });
}

}  // namespace

std::string HttpRequest::header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string{} : it->second;
}

std::string sha256_hex(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return hex(digest.data(), size);
}

std::string hmac_sha256_hex(const std::string& secret, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  return hex(digest.data(), size);
}

std::string canonical_request(const HttpRequest& request,
                              const std::vector<std::string>& signed_headers,
                              const std::string& body_sha256) {
  auto query = request.query;
  std::sort(query.begin(), query.end());
  std::string query_text;
  for (const auto& [name, value] : query) {
    query_text +=
        (query_text.empty() ? "" : "&") + percent_encoded(name) + "=" + percent_encoded(value);
  }
  std::string headers;
  std::string names;
  for (const std::string& name : signed_headers) {
    headers += name + ":" + trimmed(request.header(name)) + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  return request.method + "\n" + request.path + "\n" + query_text + "\n" + headers + "\n" + names +
         "\n" + body_sha256;
}

Authentication::Authentication(std::string admin_token, std::vector<AccessKey> keys)
    : admin_token_(std::move(admin_token)), keys_(std::move(keys)) {}

Result<Caller> Authentication::caller_of(const HttpRequest& request, std::int64_t now_ms) {
  const std::string authorization = request.header("authorization");
  if (authorization.starts_with(kScheme))
    return caller_of_signature(request, authorization, now_ms);
  std::string token = request.header("x-acs-bearer-token");
  if (token.empty() && authorization.starts_with("Bearer "))
    token = trimmed(authorization.substr(7));
  if (token.empty()) {
    return refused("Unauthorized",
                   "the request carries no token: send `Authorization: Bearer TOKEN`");
  }
  if (admin_token_.empty() || !same(sha256_hex(token), sha256_hex(admin_token_))) {
    return refused("Unauthorized", "the token is not valid");
  }
  return Caller{"admin"};
}

bool Authentication::take_nonce(const std::string& nonce, std::int64_t now_ms) {
  const std::scoped_lock lock(nonces_mutex_);
  if (nonces_.size() >= kNoncesMax) {
    std::erase_if(nonces_, [&](const auto& entry) { return entry.second < now_ms; });
  }
  const auto it = nonces_.find(nonce);
  if (it != nonces_.end() && it->second >= now_ms) return false;
  if (nonces_.size() >= kNoncesMax) return false;
  nonces_[nonce] = now_ms + 2 * kSignatureValidMs;
  return true;
}

Result<Caller> Authentication::caller_of_signature(const HttpRequest& request,
                                                   const std::string& authorization,
                                                   std::int64_t now_ms) {
  std::map<std::string, std::string> parts;
  for (const std::string& part : split(authorization.substr(std::string(kScheme).size()), ',')) {
    const auto equals = part.find('=');
    if (equals != std::string::npos)
      parts[trimmed(part.substr(0, equals))] = trimmed(part.substr(equals + 1));
  }
  const auto names = split(parts["SignedHeaders"], ';');
  const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const AccessKey& one) {
    return one.id == parts["Credential"];
  });
  const std::string body_sha256 = sha256_hex(request.body);
  const std::string secret = key == keys_.end() ? "" : key->secret;
  const std::string wanted =
      hmac_sha256_hex(secret, std::string(kScheme) + "\n" +
                                  sha256_hex(canonical_request(request, names, body_sha256)));
  const bool right = key != keys_.end() && same(parts["Signature"], wanted) &&
                     std::is_sorted(names.begin(), names.end()) && signs_enough(request, names);
  if (!right) return refused("SignatureDoesNotMatch", "key or signature is not valid");
  if (request.header("x-acs-content-sha256") != body_sha256) {
    return refused("SignatureDoesNotMatch", "x-acs-content-sha256 does not match the body");
  }
  const auto date = time_of_text(request.header("x-acs-date"));
  if (!date || *date < now_ms - kSignatureValidMs || *date > now_ms + kSignatureValidMs) {
    return refused("InvalidTimeStamp.Expired", "x-acs-date must lie within 15 minutes of now");
  }
  const std::string nonce = request.header("x-acs-signature-nonce");
  if (nonce.empty() || nonce.size() > 128 ||
      !take_nonce(parts["Credential"] + "/" + nonce, now_ms)) {
    return refused("SignatureNonceUsed",
                   "x-acs-signature-nonce must be given and never used before");
  }
  return Caller{key->user};
}

}  // namespace ebb::gateway
