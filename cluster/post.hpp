// How those outside the machines (gateway, command handlers) speak to actors: a command with one
// reply.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/store/store.hpp"
#include "ebb/v1/envelope.pb.h"

namespace ebb::cluster {

/// One line a machine gave as a decision, as the log has it.
struct DecisionLine {
  std::uint64_t number = 0;  // rises by one with each line of this process
  std::int64_t wall_ms = 0;
  std::string actor;  // address
  std::string line;   // `evict claim=... reason=...`
};

class Post {
 public:
  using Answered = std::function<void(const v1::Reply&)>;
  virtual ~Post() = default;
  /// Sends `envelope` (its `to` and payload set) and calls `answered` once, from another thread:
  /// with the reply, with refusal `NotFound` (404) if no such actor exists, or `Timeout` (504)
  /// after `timeout_ms`.
  virtual void ask(v1::Envelope envelope, std::int64_t timeout_ms, Answered answered) = 0;
  virtual Store& store() = 0;
  /// The cluster's clock (it may run faster than real time).
  virtual std::int64_t wall_ms() const = 0;
  /// The kept decision lines with a number above `after`, oldest first, at most `at_most` (the
  /// newest of them).
  virtual std::vector<DecisionLine> decisions(std::uint64_t after, std::size_t at_most) const = 0;
};

}  // namespace ebb::cluster
