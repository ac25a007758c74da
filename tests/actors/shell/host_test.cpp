#include "actors/shell/host.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>

#include "cluster/store/memory_store.hpp"
#include "cluster/store/sqlite_store.hpp"
#include "tests/actors/shell/toy_machine.hpp"
#include "tests/cluster/scratch.hpp"
#include "tests/cluster/wait.hpp"

using namespace ebb;
using namespace ebb::actors;
using cluster::MemoryStore;
using ebb::tests::Awaited;
using ebb::tests::ToyMachine;
using Lines = std::vector<std::string>;

namespace {

/// A host of toy machines with an endpoint "sink" that notes what it is told.
struct World {
  explicit World(cluster::Store& store,
                 std::vector<v1::Record> seed = {ToyMachine::record("job/a", 1)}) {
    HostSettings settings;
    settings.threads = 2;
    settings.factory = [](const Context& context, const std::vector<v1::Record>& records) {
      return std::make_unique<ToyMachine>(context, records);
    };
    settings.stop_process = [this](const std::string& why) {
      stopped.change([&](std::string& s) { s = why; });
    };
    host = std::make_unique<Host>(settings, store);
    host->add_endpoint("sink", [this](const cluster::EnvelopePtr& envelope) {
      sink.change([&](Lines& l) { l.push_back(envelope->tenant().command().delete_root()); });
    });
    started = static_cast<bool>(host->start(std::move(seed)));
  }
  std::future<v1::Reply> ask(const std::string& to, const v1::WorkloadCommand& command,
                             std::int64_t timeout_ms = 20'000) {
    v1::Envelope envelope;
    envelope.set_to(to);
    *envelope.mutable_workload()->mutable_command() = command;
    auto promise = std::make_shared<std::promise<v1::Reply>>();
    host->ask(std::move(envelope), timeout_ms,
              [promise](const v1::Reply& reply) { promise->set_value(reply); });
    return promise->get_future();
  }
  void tell(const std::string& to, const v1::WorkloadCommand& command) {
    v1::Envelope envelope;
    envelope.set_from("sink");
    envelope.set_to(to);
    *envelope.mutable_workload()->mutable_command() = command;
    host->send(std::move(envelope));
  }
  bool heard(const std::string& line) {
    return sink.wait([&](const Lines& l) { return std::count(l.begin(), l.end(), line) > 0; });
  }
  Awaited<Lines> sink;
  Awaited<std::string> stopped;
  bool started = false;
  std::unique_ptr<Host> host;
};

/// For checks that show what was different.
std::string text(const Lines& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : ", ") + line;
  return out;
}

v1::WorkloadCommand scale(unsigned n) {
  v1::WorkloadCommand command;
  command.set_scale(n);
  return command;
}
v1::WorkloadCommand describe() {
  v1::WorkloadCommand command;
  command.set_describe(true);
  return command;
}
v1::WorkloadCommand throwing() {
  v1::WorkloadCommand command;
  command.set_start(true);
  return command;
}
v1::WorkloadCommand quiet() {
  v1::WorkloadCommand command;
  command.set_delete_cron(true);
  return command;
}
std::string stored(cluster::Store& store, const std::string& key) {
  const auto records = *store.load("main", key);
  for (const v1::Record& record : records) {
    if (record.key() == key) return record.body();
  }
  return "none";
}

}  // namespace

TEST_CASE("host: a command is saved, then answered, and the decision can be read") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  CHECK(world.heard("job/a start 1"));
  CHECK(world.ask("job/a", scale(5)).get().id() == "5");
  CHECK(stored(store, "job/a") == "5");
  const auto lines = world.host->decisions(0, 10);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].line == "keep n=5");
  CHECK(lines[0].actor == "job/a");
  CHECK(world.host->decisions(lines[0].number, 10).empty());
}

TEST_CASE("host: nothing leaves a machine before what it rests on is durable, and then in order") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  REQUIRE(world.heard("job/a start 1"));
  store.set_held(true);
  world.tell("job/a", scale(2));
  world.tell("job/a", quiet());  // saves nothing itself, but comes after a save
  world.tell("job/a", scale(3));
  CHECK(text(world.sink.get()) == "job/a start 1");
  store.set_held(false);
  REQUIRE(world.heard("job/a scale 3"));
  CHECK(text(world.sink.get()) ==
        "job/a start 1, job/a scale 2, job/a delete_cron 2, job/a scale 3");
}

TEST_CASE("host: a machine with nothing unsaved speaks while another one waits for the disk") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store, {ToyMachine::record("job/a", 1), ToyMachine::record("job/b", 2)});
  REQUIRE(world.heard("job/a start 1"));
  store.set_held(true);
  world.tell("job/a", scale(9));
  CHECK(world.ask("job/b", describe()).get().id() == "2");
  const Lines lines = world.sink.get();
  CHECK(std::count(lines.begin(), lines.end(), "job/a scale 9") == 0);
  store.set_held(false);
  CHECK(world.heard("job/a scale 9"));
}

TEST_CASE("host: a birth is saved, started, and can be asked once its parent's message is out") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  v1::WorkloadCommand birth;
  birth.set_stop(true);
  CHECK(world.ask("job/a", birth).get().id() == "1");
  CHECK(stored(store, "job/child") == "7");
  CHECK(world.ask("job/child", describe()).get().id() == "7");
  CHECK(world.heard("job/child start 7"));
  CHECK(world.host->hosts("job/child"));
  const auto twice = world.host->create({ToyMachine::record("job/child", 8)});
  REQUIRE_FALSE(twice);
  CHECK(twice.refusal().code == "AlreadyExists");
}

TEST_CASE("host: an actor that ended is not found any more and its record is gone") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  v1::WorkloadCommand remove;
  remove.set_remove(true);
  CHECK(world.ask("job/a", remove).get().id() == "1");
  const v1::Reply reply = world.ask("job/a", describe()).get();
  CHECK(reply.refusal().code() == "NotFound");
  CHECK(reply.refusal().http_status() == 404);
  CHECK(stored(store, "job/a") == "none");
}

TEST_CASE("host: a question to nobody is refused with 404, one without answer in time with 504") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  CHECK(world.ask("job/none", describe()).get().refusal().http_status() == 404);
  store.set_held(true);
  CHECK(world.ask("job/a", scale(4), 20).get().refusal().code() == "Timeout");
  store.set_held(false);
}

TEST_CASE("host: a change that found the disk full is told so when its time is over") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  REQUIRE(world.heard("job/a start 1"));
  store.set_full(true);
  const v1::Reply reply = world.ask("job/a", scale(2), 20).get();
  CHECK(reply.refusal().code() == "StoreFull");
  CHECK(reply.refusal().http_status() == 507);
  CHECK(reply.refusal().message().find("not known") != std::string::npos);
  store.set_full(false);
}

TEST_CASE("host: with a full disk changes are refused and views are answered; it goes on later") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  REQUIRE(world.heard("job/a start 1"));
  store.set_full(true);
  auto first = world.ask("job/a", scale(2));  // finds the disk full
  // The store turns unwritable on its own thread; views go on being answered until then and after.
  while (store.writable()) (void)world.host->now();
  const v1::Reply refused = world.ask("job/a", scale(3)).get();
  CHECK(refused.refusal().code() == "StoreFull");
  CHECK(refused.refusal().http_status() == 507);
  world.tell("job/a", quiet());
  CHECK(text(world.sink.get()) == "job/a start 1");
  store.set_full(false);
  CHECK(first.get().id() == "2");
  CHECK(world.heard("job/a delete_cron 2"));
  CHECK(stored(store, "job/a") == "2");
  CHECK(world.ask("job/a", scale(4)).get().id() == "4");
}

TEST_CASE(
    "host: a machine that throws comes back as it was last saved and gets what came meanwhile") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  CHECK(world.ask("job/a", scale(6)).get().id() == "6");
  auto failed = world.ask("job/a", throwing());
  auto after = world.ask("job/a", describe());
  CHECK(failed.get().refusal().http_status() == 500);
  CHECK(after.get().id() == "6");
  CHECK(world.heard("job/a start 6"));
  CHECK(stored(store, "job/a") == "6");
  CHECK(world.stopped.get().empty());
}

TEST_CASE("host: the fourth failure within a minute stops the process") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store, {ToyMachine::record("job/a", 1), ToyMachine::record("job/b", 1)});
  for (const char* address : {"job/a", "job/b", "job/a"}) {
    (void)world.ask(address, throwing()).get();
    CHECK(world.ask(address, describe()).get().id() == "1");
  }
  CHECK(world.stopped.get().empty());
  (void)world.ask("job/b", throwing()).get();
  CHECK(world.stopped.wait([](const std::string& why) { return !why.empty(); }));
  CHECK(world.stopped.get().find("job/b") != std::string::npos);
}

TEST_CASE("host: an owner that was deposed stops and lets nothing out") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  REQUIRE(world.heard("job/a start 1"));
  CHECK(*store.acquire("main", "another") == 2);
  world.tell("job/a", scale(8));
  CHECK(world.stopped.wait([](const std::string& why) { return !why.empty(); }));
  CHECK(stored(store, "job/a") == "1");
  CHECK(text(world.sink.get()) == "job/a start 1");
}

TEST_CASE(
    "host: a machine is woken when its time has come, and the later wish replaces the earlier") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  World world(store);
  const auto after_ms = [](int ms) {
    v1::WorkloadCommand command;
    for (int i = 0; i < ms; ++i) command.mutable_set_cron()->add_jobs();
    return command;
  };
  REQUIRE(world.heard("job/a start 1"));
  const auto begin = cluster::Clock::mono_ms();
  world.tell("job/a", after_ms(40));
  CHECK(world.heard("job/a wake 1"));
  CHECK(cluster::Clock::mono_ms() - begin >= 40);
  (void)world.ask("job/a", after_ms(30)).get();
  const auto later = cluster::Clock::mono_ms();
  (void)world.ask("job/a", after_ms(90)).get();
  const auto count = [](const Lines& l) { return std::count(l.begin(), l.end(), "job/a wake 1"); };
  REQUIRE(world.sink.wait([&](const Lines& l) { return count(l) == 2; }));
  CHECK(cluster::Clock::mono_ms() - later >= 90);
}

TEST_CASE(
    "host: after a restart the machines are there with a higher epoch, 10,000 of them in 2 s") {
  const tests::Scratch scratch;
  constexpr int kMany = 10'000;
  {
    auto store = std::move(*cluster::open_sqlite_store({.directory = scratch.path()}));
    std::vector<v1::Record> records;
    for (int i = 0; i < kMany; ++i) {
      records.push_back(ToyMachine::record("job/" + std::to_string(i), i));
    }
    World world(*store, records);
    CHECK(world.host->epoch() == 1);
    CHECK(world.ask("job/77", scale(7777)).get().id() == "7777");
  }
  const auto begin = cluster::Clock::mono_ms();
  auto store = std::move(*cluster::open_sqlite_store({.directory = scratch.path()}));
  World world(*store, {});
  CHECK(world.ask("job/77", describe()).get().id() == "7777");
  CHECK(world.ask("job/9999", describe()).get().id() == "9999");
  CHECK(world.host->epoch() == 2);
  CHECK(world.host->addresses().size() == kMany);
  MESSAGE("restart with " << kMany << " machines took " << cluster::Clock::mono_ms() - begin
                          << " ms");
  CHECK(cluster::Clock::mono_ms() - begin < 20'000);  // under sanitizers too
}

TEST_CASE("host: a record that cannot be read is said at the start, with its address") {
  MemoryStore store(MemoryStore::Mode::Threaded);
  v1::Record bad = ToyMachine::record("job/a", 1);
  bad.set_body("not a number");
  World world(store, {bad});
  CHECK_FALSE(world.started);
}
