// A link carries envelopes between processes. It may lose, double, delay or reorder them: machines
// repeat their records.
//
// The peer is known by its authenticated key, never by what it writes: `from` of what arrives is
// checked against the peer's scope before `Received` is called.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "ebb/v1/envelope.pb.h"

namespace ebb::cluster {

using EnvelopePtr = std::shared_ptr<const v1::Envelope>;

class Link {
 public:
  using Received = std::function<void(EnvelopePtr)>;
  virtual ~Link() = default;
  /// Sends if a route to `envelope->to()` is known, else drops it and returns false. Never blocks:
  /// a peer whose queue is full loses messages. True promises nothing but that a route was known.
  /// Any thread may call it.
  virtual bool send(EnvelopePtr envelope) = 0;
};

}  // namespace ebb::cluster
