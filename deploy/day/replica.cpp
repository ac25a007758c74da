// ebb_day_replica: one replica of the reference day's service: answers every HTTP request on
// $EBB_PORT with its name.
//
// Prints `ready name=... port=... pid=... at=MS` once it listens, so that a reader can tell to the
// millisecond when the last of many was there. SIGTERM ends it with exit code 0.
// Exit codes: 0 told to stop, 2 no usable EBB_PORT, 3 the port cannot be had.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "deploy/day/checkpoint.hpp"

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int listen_on(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return -1;
  return listen(listener, 64) == 0 ? listener : -1;
}

/// One request, one answer. A client that says nothing for a second is hung up on.
void serve(int client, const std::string& name) {
  timeval patience{.tv_sec = 1, .tv_usec = 0};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string request;
  char buffer[4096];
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < 65'536) {
    const ssize_t got = recv(client, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    request.append(buffer, static_cast<std::size_t>(got));
  }
  const std::string body = name + "\n";
  const std::string answer =
      "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  if (send(client, answer.data(), answer.size(), MSG_NOSIGNAL) < 0)
    std::perror("ebb_day_replica: send");
}

}  // namespace

int main() {
  std::signal(SIGTERM, [](int) { _exit(0); });
  const int port = std::atoi(environment("EBB_PORT").c_str());
  if (port < 1 || port > 65'535) {
    std::fprintf(stderr, "ebb_day_replica: EBB_PORT is \"%s\", allowed is 1 to 65535\n",
                 environment("EBB_PORT").c_str());
    return 2;
  }
  const int listener = listen_on(port);
  if (listener < 0) {
    std::perror("ebb_day_replica: listen");
    return 3;
  }
  std::string name = environment("EBB_DAY_NAME");
  if (name.empty()) name = environment("EBB_JOB_ID") + "-" + std::to_string(getpid());
  const std::string line = "ready name=" + name + " port=" + std::to_string(port) +
                           " pid=" + std::to_string(getpid()) +
                           " at=" + std::to_string(ebb::day::real_ms()) + "\n";
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
  for (;;) {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    serve(client, name);
    close(client);
  }
}
