#include "gateway/authentication.hpp"

#include <doctest/doctest.h>

using namespace ebb::gateway;

namespace {

constexpr std::int64_t kNow = 1'767'225'600'000;  // 2026-01-01T00:00:00Z
const std::string kNames =
    "content-type;host;x-acs-action;x-acs-content-sha256;x-acs-date;x-acs-signature-nonce;x-acs-"
    "version";

/// Signed outside of this code, with Python's hashlib and hmac, by the rules of the API notes.
HttpRequest signed_request() {
  HttpRequest request;
  request.method = "POST";
  request.path = "/api/v1/quotas";
  request.query = {{"b", "2 3"}, {"a", "x/y~z"}};
  request.body = R"({"QuotaName":"x"})";
  request.headers = {
      {"host", "127.0.0.1:7070"},
      {"content-type", "application/json"},
      {"x-acs-action", "CreateQuota"},
      {"x-acs-content-sha256", "bdc7402238e75cc81d52cd0a6cde1fbc800513fd33aa2aff943508e4fde69b5d"},
      {"x-acs-date", "2026-01-01T00:00:00Z"},
      {"x-acs-signature-nonce", "n-1"},
      {"x-acs-version", "2022-01-12"}};
  request.headers["authorization"] =
      "ACS3-HMAC-SHA256 Credential=key-1,SignedHeaders=" + kNames +
      ",Signature=02487b17dc975734c9ceb282912f3195beeaaebb3281f19c1b066090076668a4";
  return request;
}

}  // namespace

TEST_CASE("authentication: a signature made elsewhere is accepted once") {
  Authentication authentication("token", {{"key-1", "secret-1", "ada"}});
  const auto caller = authentication.caller_of(signed_request(), kNow + 60'000);
  REQUIRE(caller);
  CHECK(caller.value().user == "ada");
  const auto again = authentication.caller_of(signed_request(), kNow + 61'000);
  REQUIRE(!again);
  CHECK(again.refusal().code == "SignatureNonceUsed");
}

TEST_CASE("authentication: any change of a signed request is refused") {
  using Change = void (*)(HttpRequest&);
  const Change changes[] = {
      [](HttpRequest& r) { r.method = "PUT"; },
      [](HttpRequest& r) { r.path = "/api/v1/quotas/x"; },
      [](HttpRequest& r) { r.body = "{}"; },
      [](HttpRequest& r) { r.query.pop_back(); },
      [](HttpRequest& r) { r.query.emplace_back("c", "1"); },
      [](HttpRequest& r) { r.headers["x-acs-action"] = "DeleteQuota"; },
      [](HttpRequest& r) { r.headers["x-acs-extra"] = "not signed"; },
      [](HttpRequest& r) { r.headers["authorization"].back() ^= 1; },
      [](HttpRequest& r) {
        std::string& text = r.headers["authorization"];
        text.replace(text.find("key-1"), 5, "key-2");
      },
  };
  for (const Change change : changes) {
    Authentication authentication("token", {{"key-1", "secret-1", "ada"}});
    HttpRequest request = signed_request();
    change(request);
    const auto caller = authentication.caller_of(request, kNow);
    REQUIRE(!caller);
    CHECK(caller.refusal().code == "SignatureDoesNotMatch");
    CHECK(caller.refusal().http_status == 401);
  }
}

TEST_CASE("authentication: a signature is valid for 15 minutes around its date") {
  for (const std::int64_t minutes : {-16, 16}) {
    Authentication authentication("token", {{"key-1", "secret-1", "ada"}});
    const auto caller = authentication.caller_of(signed_request(), kNow + minutes * 60'000);
    REQUIRE(!caller);
    CHECK(caller.refusal().code == "InvalidTimeStamp.Expired");
  }
}

TEST_CASE("authentication: an empty token never opens the door") {
  Authentication authentication("", {});
  HttpRequest request;
  CHECK(!authentication.caller_of(request, kNow));
  request.headers["authorization"] = "Bearer ";
  CHECK(!authentication.caller_of(request, kNow));
  request.headers["authorization"] = "ACS3-HMAC-SHA256 Credential=,SignedHeaders=,Signature=";
  CHECK(!authentication.caller_of(request, kNow));
}
