// What an operation uses to speak to the cluster: asks actors, reads lists, draws ids, knows the
// time.
//
// Replies arrive on another thread; the operation goes on in the gateway's own threads (`run`).
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.hpp"
#include "cluster/post.hpp"
#include "ebb/v1/envelope.pb.h"
#include "gateway/projection.hpp"
#include "gateway/task.hpp"

namespace ebb::gateway {

class Desk {
 public:
  using Run = std::function<void(std::function<void()>)>;
  Desk(cluster::Post& post, const Projection& lists, Run run, std::int64_t timeout_ms)
      : post_(post), lists_(lists), run_(std::move(run)), timeout_ms_(timeout_ms) {}

  /// The reply to a command, or its refusal. `to` and payload must be set.
  Task<Result<v1::Reply>> ask(v1::Envelope envelope);

  // What an actor says of itself now. Refused with 404 if there is none.
  Task<Result<v1::QuotaView>> quota(std::string id);
  Task<Result<v1::TenantRecord>> tenant();
  Task<Result<v1::WorkspaceRecord>> workspace(std::string id);
  Task<Result<v1::WorkloadRecord>> workload(std::string address);
  Task<Result<v1::PoolView>> pool(std::string address);

  const Projection& lists() const { return lists_; }
  std::int64_t wall_ms() const { return post_.wall_ms(); }
  bool writable() const { return post_.store().writable(); }
  const cluster::Post& post() const { return post_; }

 private:
  cluster::Post& post_;
  const Projection& lists_;
  Run run_;
  std::int64_t timeout_ms_;
};

/// 128 random bits as 26 letters and digits, after the prefix.
std::string new_id(const std::string& prefix);
/// As the API writes request ids: upper-case UUID.
std::string new_request_id();

}  // namespace ebb::gateway
