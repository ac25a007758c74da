// The program ebbd as a real process.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <future>

#include "cluster/link/zmq_link.hpp"
#include "cluster/private_file.hpp"
#include "cluster/store/sqlite_store.hpp"
#include "ebb/v1/workload.pb.h"
#include "server/first_start.hpp"
#include "tests/cluster/scratch.hpp"
#include "tests/cluster/wait.hpp"
#include "tests/server/program.hpp"

using namespace ebb;
using ebb::tests::eventually;
using ebb::tests::Program;
using ebb::tests::Scratch;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> ebbd(const std::string& data) {
  return {EBB_BIN "/ebbd", "--data",           data, "--listen", "127.0.0.1:0",
          "--link",        "tcp://127.0.0.1:0"};
}
bool is_ready(const std::string& line) { return line.starts_with("ebbd ready http=127.0.0.1:"); }
bool is_private(const std::string& path) {
  return fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write);
}

}  // namespace

TEST_CASE("ebbd: at its first start it makes token, keys and a join directory, all private") {
  const Scratch scratch;
  Program program(ebbd(scratch / "data"));
  REQUIRE_MESSAGE(is_ready(program.first_line()), program.errors());
  for (const char* name : {"token", "link.key", "join/join", "clock", "allow/local.allow"}) {
    CAPTURE(name);
    CHECK(is_private(scratch / ("data/" + std::string(name))));
  }
  CHECK(cluster::read_file(scratch / "data/token")->size() == 65);
  program.signal(SIGTERM);
  CHECK(program.wait() == 0);
}

TEST_CASE("ebbd: with its join directory an agent gets in as any node") {
  const Scratch scratch;
  Program program(ebbd(scratch / "data"));
  REQUIRE_MESSAGE(is_ready(program.first_line()), program.errors());
  const auto join = cluster::read_join(scratch / "data/join");
  REQUIRE(join);
  const auto link =
      cluster::ZmqDialer::open({.endpoint = join->endpoint,
                                .server_public_key = join->server_public_key,
                                .key = join->key,
                                .addresses = [] { return std::vector<std::string>{"node/n1"}; }},
                               [](const cluster::EnvelopePtr&) {});
  REQUIRE(link);
  CHECK(eventually([&] { return (*link)->is_connected(); }));
}

TEST_CASE("ebbd: a second one on the same data directory is refused with the first one's pid") {
  const Scratch scratch;
  Program first(ebbd(scratch / "data"));
  REQUIRE_MESSAGE(is_ready(first.first_line()), first.errors());
  Program second(ebbd(scratch / "data"));
  CHECK(second.first_line().empty());
  CHECK(second.wait() == 1);
  CHECK(second.errors().find("pid " + std::to_string(first.pid())) != std::string::npos);
}

TEST_CASE("ebbd: flags that are wrong are refused by name, with what is allowed") {
  const Scratch scratch;
  struct Row {
    const char* flag;
    const char* value;
    const char* said;
  };
  const Row rows[] = {{"--speed", "0", "100000"},
                      {"--listen", "nowhere", "HOST:PORT"},
                      {"--listen", "127.0.0.1:65536", "65535"},
                      {"--clock-start", "25:00Z", "07:30Z"}};
  for (const Row& row : rows) {
    CAPTURE(row.value);
    Program program({EBB_BIN "/ebbd", "--data", scratch / "data", row.flag, row.value});
    CHECK(program.first_line().empty());
    CHECK(program.wait() == 1);
    CHECK(program.errors().find(row.said) != std::string::npos);
  }
}

TEST_CASE("ebbd: killed and started again with 10,000 jobs it is soon ready, with the same token") {
  const Scratch scratch;
  const std::string data = scratch / "data";
  {
    const auto store = std::move(*cluster::open_sqlite_store({.directory = data}));
    const std::uint64_t epoch = *store->acquire("main", "test");
    std::vector<v1::Record> records;
    for (int i = 0; i < 10'000; ++i) {
      v1::WorkloadRecord job;
      job.mutable_spec()->set_id("dlc" + std::to_string(i));
      job.mutable_spec()->set_product(v1::PRODUCT_JOB);
      job.mutable_spec()->set_name("job-" + std::to_string(i));
      job.mutable_spec()->set_quota_id("q1");
      job.set_status("Succeeded");
      v1::Record& record = records.emplace_back();
      record.set_key("job/dlc" + std::to_string(i));
      record.set_kind("WorkloadRecord");
      record.set_body(job.SerializeAsString());
    }
    std::promise<cluster::SaveOutcome> outcome;
    store->save("main", epoch, std::move(records),
                [&](cluster::SaveOutcome o) { outcome.set_value(o); });
    REQUIRE(outcome.get_future().get() == cluster::SaveOutcome::Saved);
  }
  std::string token;
  {
    Program program(ebbd(data));
    REQUIRE_MESSAGE(is_ready(program.first_line()), program.errors());
    token = *cluster::read_file(data + "/token");
    program.signal(SIGKILL);
    CHECK(program.wait() == 128 + SIGKILL);
  }
  const auto begin = std::chrono::steady_clock::now();
  Program again(ebbd(data));
  CHECK_MESSAGE(is_ready(again.first_line()), again.errors());
  const auto took = std::chrono::steady_clock::now() - begin;
  MESSAGE("ready after " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count()
                         << " ms");
  // The promise is 2 s on a machine of its own; tests share theirs.
  CHECK(took < std::chrono::seconds(10));
  CHECK(*cluster::read_file(data + "/token") == token);
}

TEST_CASE("ebbd: an agent's entry that an operator took away does not come back") {
  const Scratch scratch;
  const std::string allow = scratch / "allow";
  const std::string server_key = cluster::make_key_pair().public_key;
  REQUIRE(server::prepare_join(scratch.path(), allow, "tcp://127.0.0.1:1", server_key));
  CHECK(fs::exists(allow + "/local.allow"));
  const auto before = cluster::read_join(scratch / "join");
  REQUIRE(before);
  fs::remove(allow + "/local.allow");
  REQUIRE(server::prepare_join(scratch.path(), allow, "tcp://127.0.0.1:2", server_key));
  CHECK_FALSE(fs::exists(allow + "/local.allow"));
  CHECK(cluster::read_join(scratch / "join")->key.public_key == before->key.public_key);
}
