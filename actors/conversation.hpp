// One side of the conversation between two neighbours that repeat records to each other (DESIGN
// section 2).
//
// Rules. Each side has one record for the other, with a stamp that rises with each change. A record
// is sent on change, then repeated until the other side has echoed its stamp. A received record
// whose stamp is not newer is late or repeated: its content is ignored, but it is answered if its
// sender asks for an echo. Losses, repeats, delays and reorderings therefore only cost time. An
// owner that was restarted comes back with a higher epoch; what it had seen is lost, so the other
// side repeats its record to it.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/instant.hpp"
#include "ebb/v1/common.pb.h"

namespace ebb::actors {

inline constexpr std::int64_t kResendMs = 200;
inline constexpr std::int64_t kResendSlowestMs = 2'000;
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct StampValue {
  std::uint64_t epoch = 0;
  std::uint64_t version = 0;
  friend auto operator<=>(const StampValue&, const StampValue&) = default;
};

class Conversation {
 public:
  /// `base`: versions start above it. A machine that forgets a conversation and begins it anew
  /// within one epoch has to go on from its highest version, or the other side would take it for
  /// late.
  explicit Conversation(std::uint64_t epoch = 1, std::uint64_t base = 0)
      : base_(base), mine_{epoch, base} {}

  /// My record has changed: it will be sent anew.
  void touch() {
    ++mine_.version;
    resend_at_ = 0;
    resend_every_ = kResendMs;
  }
  /// The other side may have been born anew without our hearing of it: my record is sent again and
  /// repeated until it is echoed.
  void repeat() {
    if (!has_record()) return;
    echoed_ = {};
    resend_at_ = 0;
    resend_every_ = kResendMs;
  }
  /// True: the content is newer than all before, read it. False: ignore the content.
  bool receive(const v1::Header& header);
  /// Whether my record has to go out now.
  bool must_send(std::int64_t mono_ms) const {
    return owes_echo_ || (has_record() && echoed_ < mine_ && mono_ms >= resend_at_);
  }
  /// When must_send becomes true without a further event; kNever if not.
  std::int64_t due() const {
    if (owes_echo_) return 0;
    return has_record() && echoed_ < mine_ ? resend_at_ : kNever;
  }
  /// Fills the header of an outgoing record and counts it as sent now.
  void stamp(v1::Header* header, std::int64_t mono_ms);
  bool has_record() const { return mine_.version > base_; }
  /// The other side has echoed my latest record.
  bool settled() const { return !has_record() || echoed_ >= mine_; }
  bool heard() const { return seen_ > StampValue{}; }
  const StampValue& seen() const { return seen_; }
  const StampValue& mine() const { return mine_; }

 private:
  std::uint64_t base_;
  StampValue mine_;
  StampValue seen_;
  StampValue echoed_;
  bool owes_echo_ = false;
  std::int64_t resend_at_ = 0;
  std::int64_t resend_every_ = kResendMs;
};

/// Counts `message` (without its header) as said; true if it differs from what was said last.
template <class M>
bool says_anything_new(const M& message, std::string* told) {
  std::string content = message.SerializeAsString();
  if (content == *told) return false;
  *told = std::move(content);
  return true;
}

}  // namespace ebb::actors
