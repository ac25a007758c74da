#include "actors/machine.hpp"

#include <algorithm>

namespace ebb::actors {
namespace {
v1::Record record_of(std::string key, std::string kind, const google::protobuf::MessageLite* body) {
  v1::Record record;
  record.set_key(std::move(key));
  record.set_kind(std::move(kind));
  if (body != nullptr) {
    body->SerializeToString(record.mutable_body());
  } else {
    record.set_erased(true);
  }
  return record;
}
}  // namespace

void Effects::save(std::string key, std::string kind, const google::protobuf::MessageLite& body) {
  saves.push_back(record_of(std::move(key), std::move(kind), &body));
}
void Effects::erase(std::string key, std::string kind) {
  saves.push_back(record_of(std::move(key), std::move(kind), nullptr));
}
void Effects::create(std::string address, std::string kind,
                     const google::protobuf::MessageLite& body) {
  births.push_back(record_of(std::move(address), std::move(kind), &body));
}
v1::Envelope& Effects::send(std::string to) {
  sends.emplace_back();
  sends.back().set_to(std::move(to));
  return sends.back();
}
void Effects::reply(const v1::Envelope& request, v1::Reply reply) {
  v1::Envelope& answer = send(request.from());
  answer.set_correlation_id(request.correlation_id());
  *answer.mutable_reply() = std::move(reply);
}
void Effects::refuse(const v1::Envelope& request, const Refusal& refusal) {
  v1::Reply reply;
  reply.mutable_refusal()->set_code(refusal.code);
  reply.mutable_refusal()->set_message(refusal.message);
  reply.mutable_refusal()->set_http_status(refusal.http_status);
  this->reply(request, std::move(reply));
}
void Effects::wake_at(std::int64_t mono_ms) {
  wake_at_mono_ms = wake_at_mono_ms ? std::min(*wake_at_mono_ms, mono_ms) : mono_ms;
}

std::string_view address_of_key(std::string_view key) { return key.substr(0, key.find('#')); }
std::string_view kind_of_address(std::string_view address) {
  return address.substr(0, address.find('/'));
}
std::string_view id_of_address(std::string_view address) {
  const std::size_t slash = address.find('/');
  return slash == std::string_view::npos ? std::string_view{} : address.substr(slash + 1);
}
}  // namespace ebb::actors
