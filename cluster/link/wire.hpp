// What both ends of a ZeroMQ link share: socket settings, the form of a message
// (messages/ebb/v1/link.proto), counters.
#pragma once
#include <atomic>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "cluster/link/zmq_link.hpp"
#include "ebb/v1/link.pb.h"

namespace ebb::cluster {

inline constexpr char kEnvelopeByte = 'E';
inline constexpr char kHelloByte = 'H';
/// Between the callers of send() and the socket's thread, all peers together.
inline constexpr std::size_t kOutboxMax = 65'536;

struct Counters {
  std::atomic<std::uint64_t> sent = 0, received = 0, no_route = 0, queue_full = 0, refused_key = 0,
                             refused_from = 0, refused_content = 0;
  LinkCounters values() const {
    return {sent, received, no_route, queue_full, refused_key, refused_from, refused_content};
  }
};

/// Counts up; true if this one is to be logged: the 1st, 2nd, 4th, 8th, so that a flood does not
/// fill the log.
inline bool count_and_log(std::atomic<std::uint64_t>& counter) {
  const std::uint64_t n = ++counter;
  return (n & (n - 1)) == 0;
}

inline std::string wire_form(char kind, const google::protobuf::MessageLite& message) {
  std::string bytes(1, kind);
  message.AppendToString(&bytes);
  return bytes;
}

inline std::string_view content_of(const zmq::message_t& frame) {
  return frame.to_string_view().substr(1);
}

inline void set_bounds(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, kQueuedMax);
  socket.set(zmq::sockopt::rcvhwm, kQueuedMax);
  socket.set(zmq::sockopt::maxmsgsize, kMessageBytesMax);
  socket.set(zmq::sockopt::handshake_ivl, 5'000);
  socket.set(zmq::sockopt::heartbeat_ivl, 2'000);
  socket.set(zmq::sockopt::heartbeat_timeout, 6'000);
  socket.set(zmq::sockopt::heartbeat_ttl, 6'000);
}

}  // namespace ebb::cluster
