// What every store must do, run against each of them.
#include "cluster/store/store.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <future>

#include "cluster/store/memory_store.hpp"
#include "cluster/store/sqlite_store.hpp"
#include "tests/cluster/scratch.hpp"
#include "tests/cluster/wait.hpp"

using namespace ebb;
using namespace ebb::cluster;
using ebb::tests::Awaited;
using ebb::tests::Scratch;

namespace {

v1::Record a_record(const std::string& key, const std::string& body) {
  v1::Record record;
  record.set_key(key);
  record.set_kind("Kind");
  record.set_body(body);
  return record;
}
v1::Record an_erasure(const std::string& key) {
  v1::Record record;
  record.set_key(key);
  record.set_erased(true);
  return record;
}
SaveOutcome saved(Store& store, const std::string& shard, std::uint64_t epoch,
                  std::vector<v1::Record> records) {
  std::promise<SaveOutcome> outcome;
  store.save(shard, epoch, std::move(records), [&](SaveOutcome o) { outcome.set_value(o); });
  return outcome.get_future().get();
}
std::string text_of(const std::vector<v1::Record>& records) {
  std::string out;
  for (const v1::Record& record : records) out += record.key() + "=" + record.body() + " ";
  return out;
}

struct Kind {
  const char* name;
  std::unique_ptr<Store> (*make)(const Scratch&);
};
const Kind kKinds[] = {
    {"sqlite",
     [](const Scratch& scratch) -> std::unique_ptr<Store> {
       return std::move(open_sqlite_store({.directory = scratch.path()}).value());
     }},
    {"memory, threaded",
     [](const Scratch&) -> std::unique_ptr<Store> {
       return std::make_unique<MemoryStore>(MemoryStore::Mode::Threaded);
     }},
    {"memory, synchronous",
     [](const Scratch&) -> std::unique_ptr<Store> {
       return std::make_unique<MemoryStore>(MemoryStore::Mode::Synchronous);
     }},
};

void with_each(const std::function<void(Store&)>& check) {
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.name);
    const Scratch scratch;
    const auto store = kind.make(scratch);
    check(*store);
  }
}

}  // namespace

TEST_CASE("store: the epoch of a shard rises by one with each owner, shards count apart") {
  with_each([](Store& store) {
    CHECK(*store.acquire("a", "one") == 1);
    CHECK(*store.acquire("a", "two") == 2);
    CHECK(*store.acquire("b", "one") == 1);
  });
}

TEST_CASE(
    "store: what was saved is loaded in the order of keys, with epoch, and the last one wins") {
  with_each([](Store& store) {
    const std::uint64_t epoch = *store.acquire("a", "one");
    CHECK(saved(store, "a", epoch, {a_record("job/2", "x"), a_record("job/1", "y")}) ==
          SaveOutcome::Saved);
    CHECK(saved(store, "a", epoch, {a_record("job/2", "z")}) == SaveOutcome::Saved);
    const auto records = *store.load("a");
    CHECK(text_of(records) == "job/1=y job/2=z ");
    CHECK(records[0].kind() == "Kind");
    CHECK(records[0].epoch() == 1);
    CHECK(records[1].revision() > records[0].revision());
  });
}

TEST_CASE("store: bodies are bytes, also empty ones and those with a zero byte") {
  with_each([](Store& store) {
    const std::uint64_t epoch = *store.acquire("a", "one");
    const std::string bytes("\0\xff#'\"", 5);
    (void)saved(store, "a", epoch, {a_record("k1", ""), a_record("k2", bytes)});
    const auto records = *store.load("a");
    REQUIRE(records.size() == 2);
    CHECK(records[0].body().empty());
    CHECK(records[1].body() == bytes);
  });
}

TEST_CASE("store: an erased record is gone, and erasing what is not there is no error") {
  with_each([](Store& store) {
    const std::uint64_t epoch = *store.acquire("a", "one");
    (void)saved(store, "a", epoch, {a_record("job/1", "x"), a_record("job/2", "y")});
    CHECK(saved(store, "a", epoch, {an_erasure("job/1"), an_erasure("job/3")}) ==
          SaveOutcome::Saved);
    CHECK(text_of(*store.load("a")) == "job/2=y ");
  });
}

TEST_CASE("store: a shard holds its own records; a prefix takes keys that start with it") {
  with_each([](Store& store) {
    const std::uint64_t a = *store.acquire("a", "one"), b = *store.acquire("b", "one");
    (void)saved(store, "a", a, {a_record("job/1", "x"), a_record("job/1#p", "y")});
    (void)saved(store, "a", a, {a_record("job/2", "u"), a_record("job/12", "v")});
    (void)saved(store, "b", b, {a_record("job/3", "z")});
    CHECK(text_of(*store.load("b")) == "job/3=z ");
    CHECK(text_of(*store.load("a", "job/1")) == "job/1=x job/1#p=y job/12=v ");
    CHECK(text_of(*store.load("a", "job/1#")) == "job/1#p=y ");
    CHECK(text_of(*store.load("a", "quota/")).empty());
  });
}

TEST_CASE("store: a deposed owner saves nothing, not even one record of its batch") {
  with_each([](Store& store) {
    const std::uint64_t old = *store.acquire("a", "one");
    (void)saved(store, "a", old, {a_record("job/1", "x")});
    const std::uint64_t current = *store.acquire("a", "two");
    CHECK(saved(store, "a", old, {a_record("job/1", "late"), a_record("job/2", "late")}) ==
          SaveOutcome::Deposed);
    CHECK(text_of(*store.load("a")) == "job/1=x ");
    CHECK(saved(store, "a", current + 1, {a_record("job/1", "early")}) == SaveOutcome::Deposed);
    CHECK(saved(store, "a", current, {a_record("job/1", "new")}) == SaveOutcome::Saved);
    CHECK(saved(store, "never acquired", 1, {a_record("job/9", "x")}) == SaveOutcome::Deposed);
    CHECK(text_of(*store.load("a")) == "job/1=new ");
  });
}

TEST_CASE("store: outcomes come in the order of the calls, also when one of them is refused") {
  with_each([](Store& store) {
    const std::uint64_t epoch = *store.acquire("a", "one");
    Awaited<std::vector<int>> order;
    for (int i = 0; i < 300; ++i) {
      const std::uint64_t claimed = i % 7 == 3 ? epoch + 5 : epoch;
      const auto expected = i % 7 == 3 ? SaveOutcome::Deposed : SaveOutcome::Saved;
      store.save("a", claimed, {a_record("k" + std::to_string(i), "x")},
                 [&order, i, expected](SaveOutcome outcome) {
                   order.change([&](auto& o) { o.push_back(outcome == expected ? i : -1); });
                 });
    }
    REQUIRE(order.wait([](const auto& o) { return o.size() == 300; }));
    std::vector<int> wanted(300);
    for (int i = 0; i < 300; ++i) wanted[static_cast<std::size_t>(i)] = i;
    CHECK(order.get() == wanted);
  });
}

TEST_CASE("store: a watch tells what is there, then every change in order, without gap or repeat") {
  with_each([](Store& store) {
    const std::uint64_t epoch = *store.acquire("a", "one");
    Awaited<int> finished;
    const auto write = [&](int from, int to) {
      for (int i = from; i < to; ++i) {
        store.save("a", epoch, {a_record("job/x", std::to_string(i)), a_record("other", "o")},
                   [&](SaveOutcome) { finished.change([](int& n) { ++n; }); });
      }
    };
    write(0, 100);
    Awaited<std::vector<int>> heard;
    const auto watch = store.watch("job/", [&](const v1::Record& record) {
      heard.change([&](auto& h) { h.push_back(std::stoi(record.body())); });
    });
    write(100, 200);
    REQUIRE(heard.wait([](const auto& h) { return !h.empty() && h.back() == 199; }));
    const std::vector<int> values = heard.get();
    for (std::size_t i = 1; i < values.size(); ++i) CHECK(values[i] == values[i - 1] + 1);
    CHECK(finished.wait([](int n) { return n == 200; }));
  });
}

TEST_CASE("store: a watch hears of erasures, and of nothing after its handle was let go") {
  with_each([](Store& store) {
    const std::uint64_t epoch = *store.acquire("a", "one");
    Awaited<std::vector<std::string>> heard;
    const auto note = [](Awaited<std::vector<std::string>>& list) {
      return [&list](const v1::Record& record) {
        list.change([&](auto& h) { h.push_back(record.key() + (record.erased() ? "-" : "+")); });
      };
    };
    auto watch = store.watch("", note(heard));
    (void)saved(store, "a", epoch, {a_record("k", "x")});
    (void)saved(store, "a", epoch, {an_erasure("k")});
    REQUIRE(heard.wait([](const auto& h) { return h.size() == 2; }));
    CHECK(heard.get() == std::vector<std::string>{"k+", "k-"});
    watch.reset();
    Awaited<std::vector<std::string>> second;
    const auto other = store.watch("", note(second));
    (void)saved(store, "a", epoch, {a_record("m", "x")});
    REQUIRE(second.wait([](const auto& h) { return h.size() == 1; }));
    CHECK(heard.get().size() == 2);
  });
}

TEST_CASE("memory store: full refuses until there is room; held answers in order afterwards") {
  MemoryStore store(MemoryStore::Mode::Synchronous);
  const std::uint64_t epoch = *store.acquire("a", "one");
  store.set_full(true);
  CHECK(saved(store, "a", epoch, {a_record("k", "x")}) == SaveOutcome::Full);
  CHECK_FALSE(store.writable());
  store.set_full(false);
  CHECK(saved(store, "a", epoch, {a_record("k", "x")}) == SaveOutcome::Saved);
  CHECK(store.writable());
  store.set_held(true);
  std::string order;
  store.save("a", epoch, {a_record("k", "1")}, [&](SaveOutcome) { order += "1"; });
  store.save("a", epoch, {a_record("k", "2")}, [&](SaveOutcome) { order += "2"; });
  CHECK(order.empty());
  CHECK(text_of(*store.load("a")) == "k=x ");
  store.set_held(false);
  CHECK(order == "12");
  CHECK(text_of(*store.load("a")) == "k=2 ");
}
