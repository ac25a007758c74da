// Questions from outside the machines that wait for their one answer.
#pragma once
#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>

#include "cluster/post.hpp"

namespace ebb::actors {

class Asks {
 public:
  /// `owner` keeps answers to an earlier process from being taken for answers to this one.
  void own(std::uint64_t owner) { owner_ = owner; }
  /// The correlation id under which the answer will come.
  std::string open(cluster::Post::Answered answered);
  /// Calls back if the question is still open; the first answer counts.
  void answer(const std::string& correlation_id, const v1::Reply& reply);

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::string, cluster::Post::Answered> open;
  };
  Shard& shard_of(const std::string& id) {
    return shards_[std::hash<std::string>()(id) % shards_.size()];
  }
  std::uint64_t owner_ = 0;
  std::atomic<std::uint64_t> asked_ = 0;
  std::array<Shard, 16> shards_;
};

v1::Reply refusal_reply(const std::string& code, const std::string& message, int http_status);

/// Whether a command only describes: such are answered also when nothing can be saved.
bool only_reads(const v1::Envelope& envelope);

}  // namespace ebb::actors
