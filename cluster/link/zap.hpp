// Answers ZeroMQ's question whether a key may connect (ZAP, RFC 27). Without such a handler CURVE
// lets any key in. The answer names the peer by its key (User-Id), which every message then
// carries.
#pragma once
#include <thread>
#include <zmq.hpp>

#include "cluster/link/allow_list.hpp"

namespace ebb::cluster {

inline constexpr const char* kZapDomain = "ebb";

class ZapHandler {
 public:
  /// Listens when this returns; sockets of `context` may bind now.
  ZapHandler(zmq::context_t& context, AllowList& allowed);
  /// Shuts the context down.
  ~ZapHandler();

 private:
  void run();
  zmq::context_t& context_;
  AllowList& allowed_;
  zmq::socket_t socket_;
  std::thread thread_;
};

}  // namespace ebb::cluster
