#include "actors/conversation.hpp"

#include <algorithm>

namespace ebb::actors {
namespace {
StampValue value_of(const v1::Stamp& stamp) { return {stamp.epoch(), stamp.version()}; }
void set(v1::Stamp* stamp, const StampValue& value) {
  stamp->set_epoch(value.epoch);
  stamp->set_version(value.version);
}
}  // namespace

bool Conversation::receive(const v1::Header& header) {
  const StampValue stamp = value_of(header.stamp());
  if (stamp < seen_) return false;  // late, or of a deposed owner: not even answered
  const bool reborn = stamp.epoch > seen_.epoch && seen_.epoch > 0;
  const StampValue echo = value_of(header.seen());
  // A reborn neighbour has forgotten what it had seen, so its echo may fall; otherwise echoes only
  // rise.
  echoed_ = reborn ? echo : std::max(echoed_, echo);
  if (has_record() && echoed_ < mine_ && reborn) resend_at_ = 0;
  if (header.wants_echo()) owes_echo_ = true;
  const bool newer = stamp > seen_;
  seen_ = stamp;
  return newer;
}

void Conversation::stamp(v1::Header* header, std::int64_t mono_ms) {
  if (!has_record()) ++mine_.version;
  set(header->mutable_stamp(), mine_);
  set(header->mutable_seen(), seen_);
  header->set_wants_echo(echoed_ < mine_);
  owes_echo_ = false;
  resend_at_ = mono_ms + resend_every_;
  resend_every_ = std::min(resend_every_ * 2, kResendSlowestMs);
}
}  // namespace ebb::actors
