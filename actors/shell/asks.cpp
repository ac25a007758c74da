#include "actors/shell/asks.hpp"

namespace ebb::actors {

std::string Asks::open(cluster::Post::Answered answered) {
  std::string id = std::to_string(owner_) + "-" + std::to_string(++asked_);
  Shard& shard = shard_of(id);
  std::lock_guard lock(shard.mutex);
  shard.open.emplace(id, std::move(answered));
  return id;
}

void Asks::answer(const std::string& correlation_id, const v1::Reply& reply) {
  cluster::Post::Answered answered;
  {
    Shard& shard = shard_of(correlation_id);
    std::lock_guard lock(shard.mutex);
    const auto found = shard.open.find(correlation_id);
    if (found == shard.open.end()) return;
    answered = std::move(found->second);
    shard.open.erase(found);
  }
  answered(reply);
}

v1::Reply refusal_reply(const std::string& code, const std::string& message, int http_status) {
  v1::Reply reply;
  reply.mutable_refusal()->set_code(code);
  reply.mutable_refusal()->set_message(message);
  reply.mutable_refusal()->set_http_status(http_status);
  return reply;
}

bool only_reads(const v1::Envelope& envelope) {
  switch (envelope.payload_case()) {
    case v1::Envelope::kQuota:
      return envelope.quota().command().has_describe();
    case v1::Envelope::kPool:
      return envelope.pool().command().has_describe();
    case v1::Envelope::kWorkload:
      return envelope.workload().command().has_describe();
    case v1::Envelope::kTenant:
      return envelope.tenant().command().has_describe();
    case v1::Envelope::kWorkspace:
      return envelope.workspace().command().has_describe();
    case v1::Envelope::kNode:
    case v1::Envelope::kLauncher:
    case v1::Envelope::kReply:
    case v1::Envelope::PAYLOAD_NOT_SET:
      return false;
  }
  return false;
}

}  // namespace ebb::actors
