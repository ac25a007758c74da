// Faults of the store on disk: torn files, a full disk, failed syncs, two owners.
#include "cluster/store/sqlite_store.hpp"

#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "tests/cluster/faulty_vfs.hpp"
#include "tests/cluster/scratch.hpp"
#include "tests/cluster/wait.hpp"

using namespace ebb;
using namespace ebb::cluster;
using ebb::tests::Awaited;
using ebb::tests::FaultyVfs;
using ebb::tests::Scratch;
namespace fs = std::filesystem;

namespace {

v1::Record a_record(const std::string& key, const std::string& body) {
  v1::Record record;
  record.set_key(key);
  record.set_kind("Kind");
  record.set_body(body);
  return record;
}
SaveOutcome saved(Store& store, std::uint64_t epoch, std::vector<v1::Record> records) {
  std::promise<SaveOutcome> outcome;
  store.save("a", epoch, std::move(records), [&](SaveOutcome o) { outcome.set_value(o); });
  return outcome.get_future().get();
}
std::unique_ptr<Store> opened(const SqliteSettings& settings) {
  return std::move(open_sqlite_store(settings).value());
}

}  // namespace

TEST_CASE("sqlite store: records and epoch outlive the store") {
  const Scratch scratch;
  {
    const auto store = opened({.directory = scratch.path()});
    REQUIRE(saved(*store, *store->acquire("a", "one"), {a_record("job/1", "x")}) ==
            SaveOutcome::Saved);
  }
  const auto store = opened({.directory = scratch.path()});
  CHECK(store->load("a")->at(0).body() == "x");
  CHECK(saved(*store, 1, {a_record("job/1", "y")}) == SaveOutcome::Saved);
  CHECK(*store->acquire("a", "two") == 2);
  CHECK(saved(*store, 1, {a_record("job/1", "z")}) == SaveOutcome::Deposed);
  CHECK(store->load("a")->at(0).body() == "y");
}

TEST_CASE("sqlite store: a second owner of the directory is refused and told the first one's pid") {
  const Scratch scratch;
  const auto store = opened({.directory = scratch.path()});
  const auto second = open_sqlite_store({.directory = scratch.path()});
  REQUIRE_FALSE(second);
  CHECK(second.refusal().message.find("pid " + std::to_string(::getpid())) != std::string::npos);
  CHECK(second.refusal().message.find(scratch.path()) != std::string::npos);
}

TEST_CASE(
    "sqlite store: a torn tail loses only what was not yet written whole, never half a save") {
  const Scratch scratch;
  const auto store = opened({.directory = scratch / "live"});
  const std::uint64_t epoch = *store->acquire("a", "one");
  constexpr int kSaves = 12;
  for (int i = 0; i < kSaves; ++i) {
    const std::string n = std::to_string(i);
    REQUIRE(saved(*store, epoch, {a_record("left", n), a_record("right", n)}) ==
            SaveOutcome::Saved);
  }
  // The files as a power cut leaves them, with the log cut at many places.
  const auto log_size = fs::file_size(scratch / "live/ebb.db-wal");
  int last_seen = -1, complete = 0;
  for (std::uintmax_t size = 0; size <= log_size; size += (log_size - size > 4200 ? 1021 : 97)) {
    const std::string copy = scratch / ("cut" + std::to_string(size));
    fs::create_directory(copy);
    fs::copy_file(scratch / "live/ebb.db", copy + "/ebb.db");
    fs::copy_file(scratch / "live/ebb.db-wal", copy + "/ebb.db-wal");
    fs::resize_file(copy + "/ebb.db-wal", size);
    {
      const auto cut = opened({.directory = copy});
      const auto records = *cut->load("a");
      CAPTURE(size);
      REQUIRE((records.empty() || records.size() == 2));
      const int n = records.empty() ? -1 : std::stoi(records[0].body());
      if (!records.empty()) CHECK(records[0].body() == records[1].body());
      CHECK(n >= last_seen);  // a longer log never knows less
      last_seen = n;
      if (n == kSaves - 1) ++complete;
    }
    fs::remove_all(copy);
  }
  CHECK(last_seen >= kSaves - 2);
}

TEST_CASE("sqlite store: a damaged file is refused with its path, and left as it is") {
  const Scratch scratch;
  {
    const auto store = opened({.directory = scratch.path()});
    const std::uint64_t epoch = *store->acquire("a", "one");
    for (int i = 0; i < 50; ++i) {
      (void)saved(*store, epoch, {a_record("k" + std::to_string(i), std::string(3000, 'x'))});
    }
  }
  const auto size = fs::file_size(scratch / "ebb.db");
  fs::resize_file(scratch / "ebb.db", size / 2);
  const auto truncated = open_sqlite_store({.directory = scratch.path()});
  REQUIRE_FALSE(truncated);
  CHECK(truncated.refusal().message.find(scratch / "ebb.db") != std::string::npos);
  CHECK(fs::file_size(scratch / "ebb.db") == size / 2);
}

TEST_CASE("sqlite store: when full it says so, loses nothing, and goes on when there is room") {
  const Scratch scratch;
  const auto store = opened({.directory = scratch.path(), .pages_max = 40});
  const std::uint64_t epoch = *store->acquire("a", "one");
  int kept = 0;
  SaveOutcome outcome = SaveOutcome::Saved;
  for (; kept < 100; ++kept) {
    outcome = saved(*store, epoch, {a_record("k" + std::to_string(kept), std::string(4000, 'x'))});
    if (outcome != SaveOutcome::Saved) break;
  }
  REQUIRE(outcome == SaveOutcome::Full);
  CHECK_FALSE(store->writable());
  CHECK(store->load("a")->size() == static_cast<std::size_t>(kept));
  std::vector<v1::Record> erasures;
  for (int i = 0; i < 10; ++i) {
    erasures.push_back(a_record("k" + std::to_string(i), ""));
    erasures.back().set_erased(true);
  }
  CHECK(saved(*store, epoch, erasures) == SaveOutcome::Saved);
  CHECK(store->writable());
  CHECK(saved(*store, epoch, {a_record("again", std::string(4000, 'x'))}) == SaveOutcome::Saved);
}

TEST_CASE("sqlite store: a disk that is really full is no end, and room that comes back is used") {
  const Scratch scratch;
  if (::mount("ebb-test", scratch.path().c_str(), "tmpfs", 0, "size=512k") != 0) {
    MESSAGE("not run: mounting a small file system is not permitted here");
    return;
  }
  {
    const auto store = opened({.directory = scratch / "data"});
    const std::uint64_t epoch = *store->acquire("a", "one");
    const std::string ballast = scratch / "ballast";
    std::string big(64 << 10, 'b');
    FILE* file = std::fopen(ballast.c_str(), "w");
    for (int i = 0; i < 100 && std::fwrite(big.data(), 1, big.size(), file) == big.size(); ++i) {
    }
    std::fclose(file);
    CHECK(saved(*store, epoch, {a_record("k", std::string(200 << 10, 'x'))}) == SaveOutcome::Full);
    CHECK_FALSE(store->writable());
    fs::remove(ballast);
    CHECK(saved(*store, epoch, {a_record("k", "x")}) == SaveOutcome::Saved);
    CHECK(store->writable());
    CHECK(store->load("a")->size() == 1);
  }
  CHECK(::umount(scratch.path().c_str()) == 0);
}

TEST_CASE("sqlite store: a failed sync ends the process and acknowledges nothing") {
  const Scratch scratch;
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyVfs::use();
    const auto store = opened({.directory = scratch.path(), .vfs = FaultyVfs::kName});
    const std::uint64_t epoch = *store->acquire("a", "one");
    tests::syncs_fail = true;
    std::promise<void> never;
    store->save("a", epoch, {a_record("k", "x")}, [&](SaveOutcome) {
      (void)!::write(pipe_ends[1], "acknowledged", 12);
      ::_exit(0);
    });
    never.get_future().wait();
  }
  ::close(pipe_ends[1]);
  char said[16];
  CHECK(::read(pipe_ends[0], said, sizeof said) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kExitStoreBroken);
  ::close(pipe_ends[0]);
}

TEST_CASE("sqlite store: what is queued while one save is written shares the next sync") {
  const Scratch scratch;
  FaultyVfs::use();
  const auto store = opened({.directory = scratch.path(), .vfs = FaultyVfs::kName});
  const std::uint64_t epoch = *store->acquire("a", "one");
  constexpr int kMany = 500;
  Awaited<int> done;
  std::promise<void> go_on;
  auto gate = go_on.get_future().share();
  const int before = tests::syncs_made;
  // The first one's outcome holds the writer until all others are queued.
  store->save("a", epoch, {a_record("first", "x")}, [gate](SaveOutcome) { gate.wait(); });
  for (int i = 0; i < kMany; ++i) {
    store->save("a", epoch, {a_record("k" + std::to_string(i), "x")},
                [&](SaveOutcome) { done.change([](int& n) { ++n; }); });
  }
  go_on.set_value();
  REQUIRE(done.wait([](int n) { return n == kMany; }));
  // One if the writer came so late that it found all of them queued, first included.
  CHECK(tests::syncs_made - before >= 1);
  CHECK(tests::syncs_made - before <= 6);
}
