#include "gateway/desk.hpp"

#include <sys/random.h>

#include <array>

#include "base/assert.hpp"
#include "gateway/translation/common_json.hpp"

namespace ebb::gateway {
namespace {

/// Waits for one reply; the coroutine goes on in the gateway's threads.
class Reply {
 public:
  Reply(cluster::Post& post, const Desk::Run& run, v1::Envelope envelope, std::int64_t timeout_ms)
      : post_(post), run_(run), envelope_(std::move(envelope)), timeout_ms_(timeout_ms) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    // After `ask` this object may be gone: the reply may already have let the coroutine go on.
    post_.ask(std::move(envelope_), timeout_ms_, [this, waiting](const v1::Reply& reply) {
      reply_ = reply;
      run_([waiting] { waiting.resume(); });
    });
  }
  v1::Reply await_resume() { return std::move(reply_); }

 private:
  cluster::Post& post_;
  const Desk::Run& run_;
  v1::Envelope envelope_;
  std::int64_t timeout_ms_;
  v1::Reply reply_;
};

template <class Body>
Result<Body> body_of(Result<v1::Reply> reply, const char* what, const std::string& id) {
  if (!reply) {
    if (reply.refusal().http_status == 404) return not_found(what, id);
    return reply.refusal();
  }
  Body body;
  if (!body.ParseFromString(reply->body())) {
    return Refusal{"InternalError", std::string(what) + " gave an answer that cannot be read", 500};
  }
  return body;
}

bool is_id(const std::string& id) {
  return !id.empty() && id.size() <= 128 && id.find_first_of("/#") == std::string::npos;
}

std::array<unsigned char, 16> random_bits() {
  std::array<unsigned char, 16> bits{};
  EBB_ASSERT(getrandom(bits.data(), bits.size(), 0) == static_cast<ssize_t>(bits.size()));
  return bits;
}

}  // namespace

Task<Result<v1::Reply>> Desk::ask(v1::Envelope envelope) {
  Reply awaited(post_, run_, std::move(envelope), timeout_ms_);
  v1::Reply reply = co_await awaited;
  if (reply.has_refusal()) {
    const v1::Refusal& refusal = reply.refusal();
    co_return Refusal{refusal.code(), refusal.message(),
                      refusal.http_status() == 0 ? 400 : refusal.http_status()};
  }
  co_return reply;
}

Task<Result<v1::QuotaView>> Desk::quota(std::string id) {
  if (!is_id(id)) co_return not_found("quota", id);
  v1::Envelope envelope;
  envelope.set_to("quota/" + id);
  envelope.mutable_quota()->mutable_command()->set_describe(true);
  auto reply = co_await ask(std::move(envelope));
  co_return body_of<v1::QuotaView>(std::move(reply), "quota", id);
}

Task<Result<v1::TenantRecord>> Desk::tenant() {
  v1::Envelope envelope;
  envelope.set_to("tenant");
  envelope.mutable_tenant()->mutable_command()->set_describe(true);
  auto reply = co_await ask(std::move(envelope));
  co_return body_of<v1::TenantRecord>(std::move(reply), "tenant", "");
}

Task<Result<v1::WorkspaceRecord>> Desk::workspace(std::string id) {
  if (!is_id(id)) co_return not_found("workspace", id);
  v1::Envelope envelope;
  envelope.set_to("workspace/" + id);
  envelope.mutable_workspace()->mutable_command()->set_describe(true);
  auto reply = co_await ask(std::move(envelope));
  co_return body_of<v1::WorkspaceRecord>(std::move(reply), "workspace", id);
}

Task<Result<v1::WorkloadRecord>> Desk::workload(std::string address) {
  const std::string id = id_of_address(address);
  if (!is_id(id)) co_return not_found("workload", id);
  // On a full disk an actor's answer would wait behind what it cannot save: the last that was saved
  // is what is known.
  if (!writable()) {
    if (auto saved = lists_.workload(address)) co_return std::move(*saved);
  }
  v1::Envelope envelope;
  envelope.set_to(std::move(address));
  envelope.mutable_workload()->mutable_command()->set_describe(true);
  auto reply = co_await ask(std::move(envelope));
  co_return body_of<v1::WorkloadRecord>(std::move(reply), "workload", id);
}

Task<Result<v1::PoolView>> Desk::pool(std::string address) {
  v1::Envelope envelope;
  envelope.set_to(address);
  envelope.mutable_pool()->mutable_command()->set_describe(true);
  auto reply = co_await ask(std::move(envelope));
  co_return body_of<v1::PoolView>(std::move(reply), "pool", id_of_address(address));
}

std::string new_id(const std::string& prefix) {
  static constexpr char kLetters[] = "0123456789abcdefghijkmnpqrstuvwx";  // 32, without l and o
  const auto bits = random_bits();
  std::string id = prefix;
  unsigned buffer = 0;
  int held = 0;
  for (const unsigned char byte : bits) {
    buffer = (buffer << 8) | byte;
    held += 8;
    while (held >= 5) {
      held -= 5;
      id.push_back(kLetters[(buffer >> held) & 31]);
    }
  }
  id.push_back(kLetters[(buffer << (5 - held)) & 31]);
  return id;
}

std::string new_request_id() {
  static constexpr char kHex[] = "0123456789ABCDEF";
  auto bits = random_bits();
  bits[6] = static_cast<unsigned char>((bits[6] & 0x0f) | 0x40);
  bits[8] = static_cast<unsigned char>((bits[8] & 0x3f) | 0x80);
  std::string text;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
    text.push_back(kHex[bits[i] >> 4]);
    text.push_back(kHex[bits[i] & 15]);
  }
  return text;
}

}  // namespace ebb::gateway
