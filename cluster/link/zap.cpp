#include "cluster/link/zap.hpp"

#include <spdlog/spdlog.h>

#include <vector>

namespace ebb::cluster {
namespace {
// Frames of a request: version, request id, domain, address, identity, mechanism, credentials.
constexpr std::size_t kRequestFrames = 7;
constexpr std::size_t kKeyBytes = 32;

std::vector<zmq::message_t> receive_all(zmq::socket_t& socket) {
  std::vector<zmq::message_t> frames;
  do {
    frames.emplace_back();
    (void)socket.recv(frames.back());
  } while (frames.back().more());
  return frames;
}
}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, AllowList& allowed)
    : context_(context), allowed_(allowed), socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
  thread_ = std::thread([this] { run(); });
}

ZapHandler::~ZapHandler() {
  context_.shutdown();
  thread_.join();
}

void ZapHandler::run() {
  try {
    for (;;) {
      const std::vector<zmq::message_t> frames = receive_all(socket_);
      std::string request_id, user;
      bool may_in = false;
      if (frames.size() == kRequestFrames) {
        request_id = frames[1].to_string();
        if (frames[2].to_string_view() == kZapDomain && frames[5].to_string_view() == "CURVE" &&
            frames[6].size() == kKeyBytes) {
          char key[41];
          zmq_z85_encode(key, static_cast<const std::uint8_t*>(frames[6].data()), kKeyBytes);
          user = key;
          may_in = allowed_.find(user) != nullptr;
        }
        if (!may_in) {
          spdlog::warn("peer refused key={} from={}", user.empty() ? "none" : user,
                       frames[3].to_string_view());
        }
      }
      const std::string answer[] = {"1.0",
                                    request_id,
                                    may_in ? "200" : "400",
                                    may_in ? "OK" : "key not allowed",
                                    may_in ? user : "",
                                    ""};
      for (std::size_t i = 0; i < std::size(answer); ++i) {
        socket_.send(zmq::buffer(answer[i]),
                     i + 1 < std::size(answer) ? zmq::send_flags::sndmore : zmq::send_flags::none);
      }
    }
  } catch (const zmq::error_t&) {
    socket_.close();  // the context is shut down
  }
}

}  // namespace ebb::cluster
