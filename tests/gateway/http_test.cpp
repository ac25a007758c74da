// The gateway through real sockets: what a hostile or clumsy client sends.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "gateway/gateway.hpp"
#include "tests/gateway/world.hpp"

using namespace ebb;
using namespace ebb::gateway;
using namespace ebb::gateway::testing;

namespace {

/// One connection; reads give up after 10 s.
class Connection {
 public:
  explicit Connection(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    timeval limit{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;

  void send_text(const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      const ssize_t more = send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) return;  // the server cut the connection
      sent += static_cast<std::size_t>(more);
    }
  }
  /// The status of the next answer and its JSON; 0 if the connection was closed without one.
  World::Answer read_answer() {
    World::Answer answer;
    std::size_t head_end = std::string::npos;
    while ((head_end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more()) return answer;
    }
    const std::string head = buffer_.substr(0, head_end);
    std::size_t length = 0;
    const auto field = head.find("Content-Length: ");
    if (field != std::string::npos) length = std::stoul(head.substr(field + 16));
    while (buffer_.size() < head_end + 4 + length) {
      if (!read_more()) return answer;
    }
    answer.status = std::stoi(head.substr(9, 3));
    answer.body = Json::parse(buffer_.substr(head_end + 4, length));
    buffer_.erase(0, head_end + 4 + length);
    return answer;
  }

 private:
  bool read_more() {
    char part[4'096];
    const ssize_t got = recv(socket_, part, sizeof part, 0);
    if (got > 0) buffer_.append(part, static_cast<std::size_t>(got));
    return got > 0;
  }
  int socket_;
  std::string buffer_;
};

struct Served {
  World world;
  std::unique_ptr<Gateway> gateway;
  Served() {
    GatewaySettings settings;
    settings.port = 0;
    settings.token = kToken;
    settings.reply_timeout_ms = 2'000;
    settings.connections_per_address_max = 4;
    gateway = start_gateway(settings, world.post);
  }
  World::Answer once(const std::string& text) {
    Connection connection(gateway->port());
    connection.send_text(text);
    return connection.read_answer();
  }
};

const std::string kHead = "Host: ebb\r\nAuthorization: Bearer right-token\r\n";

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\n" + kHead +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace

TEST_CASE("gateway over HTTP: requests on one connection are answered one after the other") {
  Served served;
  Connection connection(served.gateway->port());
  for (int i = 0; i < 3; ++i) {
    connection.send_text("GET /ebb/v1/status HTTP/1.1\r\n" + kHead + "\r\n");
    const auto answer = connection.read_answer();
    CHECK(answer.status == 200);
    CHECK(answer.body["Clock"] == "2026-01-01T00:00:00Z");
    CHECK(answer.body["StoreWritable"] == true);
    CHECK(answer.body["RequestId"].get<std::string>().size() == 36);
  }
}

TEST_CASE(
    "gateway over HTTP: without the right token nothing is told, not even whether a path exists") {
  Served served;
  for (const char* path : {"/ebb/v1/status", "/no/such/path"}) {
    CHECK(served.once(std::string("GET ") + path + " HTTP/1.1\r\nHost: ebb\r\n\r\n").status == 401);
    const auto answer =
        served.once(std::string("GET ") + path +
                    " HTTP/1.1\r\nHost: ebb\r\nAuthorization: Bearer wrong-token\r\n\r\n");
    CHECK(answer.status == 401);
    CHECK(answer.code() == "Unauthorized");
    CHECK(answer.message() == "the token is not valid");
  }
  CHECK(
      served
          .once(
              "GET /ebb/v1/status HTTP/1.1\r\nHost: ebb\r\nx-acs-bearer-token: right-token\r\n\r\n")
          .status == 200);
}

TEST_CASE("gateway over HTTP: what is too large, too deep or malformed is refused in words") {
  Served served;
  CHECK(served.once(post("/api/v1/quotas", std::string(1'048'577, ' '))).message() ==
        "the body has 1048577 bytes; at most 1048576 are allowed");
  CHECK(
      served.once(post("/api/v1/jobs", "{\"a\":\"" + std::string(65'536, 'x') + "\"}")).message() ==
      "the request of CreateJob has 65544 bytes; at most 65536 are allowed");
  std::string deep;
  for (int i = 0; i < 33; ++i) deep += "{\"a\":";
  CHECK(served.once(post("/api/v1/quotas", deep + "1" + std::string(33, '}'))).message() ==
        "the body is refused: nested deeper than 32");
  CHECK(served.once(post("/api/v1/quotas", std::string(100'000, '['))).code() == "InvalidJson");
  CHECK(served.once(post("/api/v1/quotas", "{\"a\":1,\"a\":2}")).message() ==
        "the body is refused: key \"a\" comes twice");
  CHECK(served.once(post("/api/v1/quotas", "{\"Min\":{\"GPU\":NaN}}")).message() ==
        "the body is refused: not valid JSON at byte 15");
  CHECK(served.once(post("/api/v1/quotas", "[1]")).message() ==
        "the body is [1]; an object is expected");
  CHECK(served.once("GET /ebb/v1/status?a=%zz HTTP/1.1\r\n" + kHead + "\r\n").code() ==
        "InvalidRequest");
  CHECK(served
            .once("GET /ebb/v1/status HTTP/1.1\r\n" + kHead + "X-Long: " +
                  std::string(16'000, 'x') + "\r\nX-More: " + std::string(600, 'x') + "\r\n\r\n")
            .status == 431);
  CHECK(served.once("GET http://else/ebb/v1/status HTTP/1.1\r\n" + kHead + "\r\n").status != 200);
}

TEST_CASE("gateway over HTTP: requests that could be read in two ways never succeed") {
  Served served;
  const char* bad[] = {
      "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
      "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "Content-Length: -1\r\n\r\n",
      "Authorization: Bearer other\r\nContent-Length: 2\r\n\r\n{}",
  };
  for (const char* rest : bad) {
    CAPTURE(rest);
    const auto answer = served.once("POST /api/v1/quotas HTTP/1.1\r\n" + kHead + rest);
    CHECK((answer.status == 0 || answer.status == 400));
    CHECK(answer.code() != "InvalidParameter");
  }
  CHECK(served.once(post("/api/v1/quotas", "{}")).status == 400);  // and it still serves
}

TEST_CASE("gateway over HTTP: one address cannot take all connections") {
  Served served;
  std::vector<std::unique_ptr<Connection>> open;
  for (int i = 0; i < 4; ++i) {
    open.push_back(std::make_unique<Connection>(served.gateway->port()));
    open.back()->send_text("GET /ebb/v1/status HTTP/1.1\r\n" + kHead + "\r\n");
    CHECK(open.back()->read_answer().status == 200);
  }
  Connection fifth(served.gateway->port());
  fifth.send_text("GET /ebb/v1/status HTTP/1.1\r\n" + kHead + "\r\n");
  CHECK(fifth.read_answer().status == 0);
}

TEST_CASE(
    "gateway over HTTP: an answer may come later from another thread, and a stop waits for it") {
  Served served;
  std::mutex mutex;
  std::vector<std::thread> actors;
  served.world.post.later = [&](std::function<void()> answer) {
    const std::scoped_lock lock(mutex);
    actors.emplace_back([answer] { answer(); });
  };
  Connection connection(served.gateway->port());
  connection.send_text("GET /api/v1/quotas/quota11 HTTP/1.1\r\n" + kHead + "\r\n");
  const auto answer = connection.read_answer();
  CHECK(answer.status == 200);
  CHECK(answer.body["QuotaName"] == "1.1");
  served.gateway.reset();
  for (std::thread& actor : actors) actor.join();
}

TEST_CASE("gateway over HTTP: a port in use is said at start") {
  Served served;
  GatewaySettings settings;
  settings.port = served.gateway->port();
  settings.token = kToken;
  CHECK_THROWS_WITH_AS(start_gateway(settings, served.world.post),
                       doctest::Contains("cannot listen on 127.0.0.1:"), std::runtime_error);
}
