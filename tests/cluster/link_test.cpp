// Links over real sockets: who gets in, who may say what, what happens when a side goes away.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <zmq.hpp>

#include "cluster/link/allow_list.hpp"
#include "cluster/link/zmq_link.hpp"
#include "ebb/v1/link.pb.h"
#include "tests/cluster/scratch.hpp"
#include "tests/cluster/wait.hpp"

using namespace ebb;
using namespace ebb::cluster;
using ebb::tests::Awaited;
using ebb::tests::eventually;
using ebb::tests::Scratch;
using Texts = std::vector<std::string>;

namespace {

v1::Envelope a_report(const std::string& from, const std::string& text) {
  v1::Envelope envelope;
  envelope.set_cluster("ebb");
  envelope.set_from(from);
  envelope.set_to("pool/q1");
  envelope.mutable_pool()->mutable_node_state()->mutable_facts()->set_boot_id(text);
  return envelope;
}
EnvelopePtr shared(v1::Envelope envelope) {
  return std::make_shared<const v1::Envelope>(std::move(envelope));
}
struct Server {
  explicit Server(const std::string& endpoint = "tcp://127.0.0.1:*") { open(endpoint); }
  void open(const std::string& endpoint) {
    auto opened = ZmqListener::open(
        {.endpoint = endpoint, .key = key, .allow_directory = scratch / "allow"},
        [this](const EnvelopePtr& envelope) {
          received.change([&](Texts& t) {
            t.push_back(envelope->from() + " " + envelope->pool().node_state().facts().boot_id());
          });
        });
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.refusal().message));
    link = *opened;
  }
  void allow(const std::string& name, const KeyPair& pair, std::vector<std::string> nodes) {
    REQUIRE(write_allow_entry(scratch / "allow",
                              {.name = name, .public_key = pair.public_key, .nodes = nodes}));
  }
  void revoke(const std::string& name) {
    REQUIRE(std::filesystem::remove(scratch / ("allow/" + name + ".allow")));
  }
  bool heard(const std::string& text) {
    return received.wait([&](const Texts& t) { return !t.empty() && t.back() == text; });
  }
  Scratch scratch;
  KeyPair key = make_key_pair();
  Awaited<Texts> received;
  std::shared_ptr<ZmqListener> link;
};

struct Agent {
  Agent(const Server& server, const KeyPair& pair, Texts nodes)
      : Agent(server, pair, nodes, server.key.public_key) {}
  Agent(const Server& server, const KeyPair& pair, Texts nodes, const std::string& server_key) {
    auto opened = ZmqDialer::open(
        {.endpoint = server.link->endpoint(),
         .server_public_key = server_key,
         .key = pair,
         .addresses = [nodes] { return nodes; }},
        [this](const EnvelopePtr& envelope) {
          received.change([&](Texts& t) { t.push_back(envelope->correlation_id()); });
        });
    REQUIRE(opened);
    link = *opened;
  }
  Awaited<Texts> received;
  std::shared_ptr<ZmqDialer> link;
};

}  // namespace

TEST_CASE("link: an allowed agent is heard, and is reached by the address it hosts") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n1"});
  Agent agent(server, pair, {"node/n1"});
  REQUIRE(eventually([&] { return server.link->knows("node/n1"); }));
  CHECK(agent.link->send(shared(a_report("node/n1", "hello"))));
  CHECK(server.heard("node/n1 hello"));
  v1::Envelope order;
  order.set_cluster("ebb");
  order.set_to("node/n1");
  order.set_correlation_id("c1");
  CHECK(server.link->send(shared(order)));
  CHECK(agent.received.wait([](const Texts& t) { return t == Texts{"c1"}; }));
  order.set_to("node/n2");
  CHECK_FALSE(server.link->send(shared(order)));
  CHECK(server.link->counters().no_route == 1);
}

TEST_CASE("link: messages of one agent come in order, thousands of them") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n*"});
  Agent agent(server, pair, {"node/n1"});
  REQUIRE(eventually([&] { return server.link->knows("node/n1"); }));
  constexpr int kMany = 4'000;  // below the bound of the queue, so none may be lost
  for (int i = 0; i < kMany; ++i) agent.link->send(shared(a_report("node/n1", std::to_string(i))));
  REQUIRE(server.received.wait([](const Texts& t) { return t.size() == kMany; }));
  const Texts texts = server.received.get();
  for (int i = 0; i < kMany; ++i) {
    if (texts[static_cast<std::size_t>(i)] != "node/n1 " + std::to_string(i)) FAIL("not in order");
  }
}

TEST_CASE("link: an unknown key does not get in, until it is allowed") {
  Server server;
  const KeyPair known = make_key_pair(), unknown = make_key_pair();
  server.allow("one", known, {"n1"});
  Agent stranger(server, unknown, {"node/n2"}), agent(server, known, {"node/n1"});
  REQUIRE(eventually([&] { return server.link->knows("node/n1"); }));
  stranger.link->send(shared(a_report("node/n2", "let me in")));
  agent.link->send(shared(a_report("node/n1", "I am in")));
  CHECK(server.heard("node/n1 I am in"));
  CHECK_FALSE(stranger.link->is_connected());
  CHECK_FALSE(server.link->knows("node/n2"));
  CHECK(server.received.get().size() == 1);
  server.allow("two", unknown, {"n2"});
  CHECK(eventually([&] { return server.link->knows("node/n2"); }));
}

TEST_CASE("link: a peer without a key and one with a wrong server key do not get in") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n1"});
  zmq::context_t context;
  zmq::socket_t plain(context, zmq::socket_type::dealer);
  plain.set(zmq::sockopt::linger, 0);
  plain.connect(server.link->endpoint());
  v1::Hello hello;
  hello.set_cluster("ebb");
  hello.add_addresses("node/n1");
  plain.send(zmq::buffer("H" + hello.SerializeAsString()), zmq::send_flags::dontwait);
  plain.send(zmq::buffer("E" + a_report("node/n1", "plain").SerializeAsString()),
             zmq::send_flags::dontwait);
  Agent misled(server, pair, {"node/n1"}, make_key_pair().public_key);
  misled.link->send(shared(a_report("node/n1", "misled")));
  // What a real agent says afterwards is the first that is heard.
  const KeyPair other = make_key_pair();
  server.allow("two", other, {"n2"});
  Agent agent(server, other, {"node/n2"});
  REQUIRE(eventually([&] { return server.link->knows("node/n2"); }));
  agent.link->send(shared(a_report("node/n2", "real")));
  CHECK(server.heard("node/n2 real"));
  CHECK(server.received.get().size() == 1);
  CHECK_FALSE(server.link->knows("node/n1"));
}

TEST_CASE("link: after its key is revoked a connected agent's next message is refused") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n1"});
  Agent agent(server, pair, {"node/n1"});
  REQUIRE(eventually([&] { return server.link->knows("node/n1"); }));
  agent.link->send(shared(a_report("node/n1", "before")));
  REQUIRE(server.heard("node/n1 before"));
  server.revoke("one");
  agent.link->send(shared(a_report("node/n1", "after")));
  CHECK(eventually([&] { return server.link->counters().refused_key > 0; }));
  CHECK_FALSE(server.link->knows("node/n1"));
  CHECK(server.received.get() == Texts{"node/n1 before"});
}

TEST_CASE(
    "link: nobody speaks in another's name, or for another cluster, or says what nodes do not "
    "say") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n1", "rack-*"});
  Agent agent(server, pair, {"node/n1", "node/n2", "quota/q1", "node/rack-7"});
  REQUIRE(eventually([&] { return server.link->knows("node/rack-7"); }));
  CHECK(server.link->knows("node/n1"));
  CHECK_FALSE(server.link->knows("node/n2"));
  CHECK_FALSE(server.link->knows("quota/q1"));
  const auto refused = [&] { return server.link->counters(); };
  const std::uint64_t greeting = refused().refused_from;
  for (const char* from : {"node/n2", "quota/q1", "node/", "", "gateway/main"}) {
    agent.link->send(shared(a_report(from, "false")));
  }
  v1::Envelope foreign = a_report("node/n1", "false");
  foreign.set_cluster("other");
  agent.link->send(shared(foreign));
  v1::Envelope command = a_report("node/n1", "false");
  command.mutable_tenant()->mutable_command()->set_delete_root("q1");
  agent.link->send(shared(command));
  agent.link->send(shared(a_report("node/rack-1", "true")));
  CHECK(server.heard("node/rack-1 true"));
  CHECK(server.received.get().size() == 1);
  CHECK(refused().refused_from >= greeting + 6);
  CHECK(refused().refused_content == 1);
}

TEST_CASE("link: two agents do not share an address; the first one keeps it") {
  Server server;
  const KeyPair first = make_key_pair(), second = make_key_pair();
  server.allow("one", first, {"n*"});
  server.allow("two", second, {"n*"});
  Agent one(server, first, {"node/n1"});
  REQUIRE(eventually([&] { return server.link->knows("node/n1"); }));
  Agent two(server, second, {"node/n1", "node/n2"});
  REQUIRE(eventually([&] { return server.link->knows("node/n2"); }));
  v1::Envelope order;
  order.set_cluster("ebb");
  order.set_to("node/n1");
  order.set_correlation_id("for one");
  CHECK(server.link->send(shared(order)));
  CHECK(one.received.wait([](const Texts& t) { return t == Texts{"for one"}; }));
  CHECK(two.received.get().empty());
}

TEST_CASE("link: an agent finds a server that was restarted") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n1"});
  const std::string endpoint = server.link->endpoint();
  Agent agent(server, pair, {"node/n1"});
  REQUIRE(eventually([&] { return server.link->knows("node/n1"); }));
  server.link.reset();
  CHECK(eventually([&] { return !agent.link->is_connected(); }));
  server.open(endpoint);
  CHECK(eventually([&] { return server.link->knows("node/n1"); }));
  agent.link->send(shared(a_report("node/n1", "back")));
  CHECK(server.heard("node/n1 back"));
}

TEST_CASE("link: a message above 1 MiB ends its connection, and the agent comes back") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n1"});
  Agent agent(server, pair, {"node/n1"});
  REQUIRE(eventually([&] { return server.link->knows("node/n1"); }));
  agent.link->send(shared(a_report("node/n1", std::string(2 << 20, 'x'))));
  CHECK(eventually([&] {
    agent.link->send(shared(a_report("node/n1", "small")));
    return !server.received.get().empty();
  }));
  CHECK(server.received.get()[0] == "node/n1 small");
}

TEST_CASE("link: bytes that are no message are counted and dropped") {
  Server server;
  const KeyPair pair = make_key_pair();
  server.allow("one", pair, {"n1"});
  zmq::context_t context;
  zmq::socket_t raw(context, zmq::socket_type::dealer);
  raw.set(zmq::sockopt::linger, 0);
  raw.set(zmq::sockopt::curve_serverkey, server.key.public_key);
  raw.set(zmq::sockopt::curve_publickey, pair.public_key);
  raw.set(zmq::sockopt::curve_secretkey, pair.secret_key);
  raw.connect(server.link->endpoint());
  for (const char* bytes : {"", "X", "E\xff\xff\xff", "H\xff\xff\xff"}) {
    raw.send(zmq::str_buffer(""), zmq::send_flags::sndmore);
    raw.send(zmq::buffer(std::string_view(bytes)), zmq::send_flags::none);
    raw.send(zmq::buffer(std::string_view(bytes)), zmq::send_flags::none);
  }
  CHECK(eventually([&] { return server.link->counters().refused_content == 8; }));
}

TEST_CASE("link: an occupied port is refused with its address") {
  Server server;
  const auto second = ZmqListener::open({.endpoint = server.link->endpoint(),
                                         .key = make_key_pair(),
                                         .allow_directory = server.scratch / "allow"},
                                        [](const EnvelopePtr&) {});
  REQUIRE_FALSE(second);
  CHECK(second.refusal().message.find(server.link->endpoint()) != std::string::npos);
}

TEST_CASE(
    "link keys: a pair is made once, kept privately, and a join directory carries all an agent "
    "needs") {
  const Scratch scratch;
  const KeyPair made = *load_or_make_key_pair(scratch / "link.key");
  CHECK(is_key(made.public_key));
  CHECK(load_or_make_key_pair(scratch / "link.key")->secret_key == made.secret_key);
  const auto mode = std::filesystem::status(scratch / "link.key").permissions();
  CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  REQUIRE(write_join(scratch / "join", {.endpoint = "tcp://127.0.0.1:7",
                                        .server_public_key = made.public_key,
                                        .key = make_key_pair()}));
  const auto join = read_join(scratch / "join");
  REQUIRE(join);
  CHECK(join->endpoint == "tcp://127.0.0.1:7");
  CHECK(join->server_public_key == made.public_key);
  const auto missing = read_join(scratch / "nowhere");
  REQUIRE_FALSE(missing);
  CHECK(missing.refusal().message.find("nowhere/join") != std::string::npos);
}
