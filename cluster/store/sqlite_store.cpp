#include "cluster/store/sqlite_store.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "cluster/store/data_lock.hpp"
#include "cluster/store/sqlite.hpp"
#include "cluster/store/watchers.hpp"

namespace ebb::cluster {
namespace {

constexpr int kFormat = 1;
/// Bounds how long the first of a group waits for the last.
constexpr std::size_t kGroupRecordsMax = 4096;

constexpr const char* kSchema = R"sql(
CREATE TABLE IF NOT EXISTS shards(shard TEXT PRIMARY KEY, epoch INTEGER NOT NULL, process TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS records(key TEXT PRIMARY KEY, shard TEXT NOT NULL, kind TEXT NOT NULL,
  epoch INTEGER NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL);
INSERT OR IGNORE INTO counters VALUES('revision', 0);
)sql";

/// The least string above all that start with `prefix`; empty if there is none.
std::string after_prefix(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

struct SaveRequest {
  std::string shard;
  std::uint64_t epoch;
  std::vector<v1::Record> records;
  Store::Saved done;
};
/// Anything else that has to be done between two transactions of the writer.
using Errand = std::packaged_task<void()>;
using Request = std::variant<SaveRequest, Errand>;

class SqliteStore : public Store {
 public:
  SqliteStore(DataLock lock, Database database, std::string path)
      : lock_(std::move(lock)),
        database_(std::move(database)),
        path_(std::move(path)),
        statements_(std::make_unique<Statements>(database_.get())),
        telling_(std::make_unique<Worker>()),
        watchers_(telling_.get()),
        writer_([this] { run(); }) {}

  ~SqliteStore() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    writer_.join();
    telling_.reset();
    statements_.reset();
  }

  Result<std::uint64_t> acquire(const std::string& shard, const std::string& process) override {
    Result<std::uint64_t> epoch = Refusal{"StoreFull", "the store has no room: " + path_, 507};
    between_saves([&] {
      execute("BEGIN IMMEDIATE");
      statements_->take.bind(1, shard).bind(2, process);
      int code = statements_->take.step();
      const std::uint64_t taken = code == SQLITE_ROW ? statements_->take.number(0) : 0;
      if (code == SQLITE_ROW) code = statements_->take.step();
      statements_->take.reset();
      if (code == SQLITE_DONE) code = execute("COMMIT");
      if (code == SQLITE_OK) {
        epoch = taken;
      } else {
        roll_back(code);
      }
    });
    return epoch;
  }

  void save(const std::string& shard, std::uint64_t epoch, std::vector<v1::Record> records,
            Saved done) override {
    give(SaveRequest{shard, epoch, std::move(records), std::move(done)});
  }

  Result<std::vector<v1::Record>> load(const std::string& shard,
                                       const std::string& key_prefix) override {
    Result<std::vector<v1::Record>> out = std::vector<v1::Record>();
    between_saves([&] { out = read(&shard, key_prefix); });
    return out;
  }

  std::shared_ptr<void> watch(const std::string& prefix, Watcher watcher) override {
    auto watch = std::make_shared<Watch>(prefix, std::move(watcher));
    between_saves([&] {
      auto present = read(nullptr, prefix);
      watchers_.add(watch, present ? std::move(*present) : std::vector<v1::Record>());
    });
    return Watchers::handle_of(watch);
  }

  bool writable() const override { return writable_; }

 private:
  struct Statements {
    explicit Statements(sqlite3* db)
        : take(db,
               "INSERT INTO shards VALUES(?1, 1, ?2) ON CONFLICT(shard) DO UPDATE SET "
               "epoch = epoch + 1, process = ?2 RETURNING epoch"),
          epoch(db, "SELECT epoch FROM shards WHERE shard = ?1"),
          next_revision(db,
                        "UPDATE counters SET value = value + 1 WHERE name = 'revision' "
                        "RETURNING value"),
          put(db,
              "INSERT INTO records VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(key) DO UPDATE SET "
              "shard = ?2, kind = ?3, epoch = ?4, revision = ?5, body = ?6"),
          erase(db, "DELETE FROM records WHERE key = ?1"),
          list(db,
               "SELECT key, kind, epoch, revision, body, shard FROM records "
               "WHERE key >= ?1 AND (?2 = '' OR key < ?2) ORDER BY key") {}
    Statement take, epoch, next_revision, put, erase, list;
  };

  void give(Request request) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(request));
    }
    changed_.notify_one();
  }

  void between_saves(const std::function<void()>& errand) {
    Errand task(errand);
    auto done = task.get_future();
    give(std::move(task));
    done.get();
  }

  void run() {
    std::vector<SaveRequest> group;
    for (;;) {
      group.clear();
      std::optional<Errand> errand;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        std::size_t records = 0;
        while (!queue_.empty() && records < kGroupRecordsMax) {
          if (auto* task = std::get_if<Errand>(&queue_.front())) {
            if (!group.empty()) break;
            errand = std::move(*task);
            queue_.pop_front();
            break;
          }
          group.push_back(std::move(std::get<SaveRequest>(queue_.front())));
          queue_.pop_front();
          records += group.back().records.size();
        }
      }
      if (errand) {
        (*errand)();
      } else {
        write(group);
      }
    }
  }

  void write(std::vector<SaveRequest>& group) {
    std::vector<SaveOutcome> outcomes(group.size(), SaveOutcome::Saved);
    const int code = write_transaction(group, outcomes);
    if (code != SQLITE_OK) {
      roll_back(code);
      for (SaveOutcome& outcome : outcomes) {
        if (outcome == SaveOutcome::Saved) outcome = SaveOutcome::Full;
      }
      if (writable_.exchange(false)) spdlog::warn("store full path={}", path_);
    } else {
      if (!writable_.exchange(true)) spdlog::info("store has room again path={}", path_);
      tell(group, outcomes);
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (group[i].done) group[i].done(outcomes[i]);
    }
  }

  int write_transaction(std::vector<SaveRequest>& group, std::vector<SaveOutcome>& outcomes) {
    if (const int code = execute("BEGIN IMMEDIATE"); code != SQLITE_OK) return code;
    std::map<std::string_view, std::uint64_t> epochs;
    for (std::size_t i = 0; i < group.size(); ++i) {
      SaveRequest& request = group[i];
      auto known = epochs.find(request.shard);
      if (known == epochs.end()) {
        known = epochs.emplace(request.shard, current_epoch(request.shard)).first;
      }
      if (known->second != request.epoch) {
        outcomes[i] = SaveOutcome::Deposed;
        continue;
      }
      Statement& next = statements_->next_revision;
      int code = next.step();
      const std::uint64_t revision = code == SQLITE_ROW ? next.number(0) : 0;
      if (code == SQLITE_ROW) code = next.step();
      next.reset();
      if (code != SQLITE_DONE) return code;
      for (v1::Record& record : request.records) {
        record.set_epoch(request.epoch);
        record.set_revision(revision);
        if (const int put = put_record(request.shard, record); put != SQLITE_DONE) return put;
      }
    }
    return execute("COMMIT");
  }

  std::uint64_t current_epoch(const std::string& shard) {
    Statement& epoch = statements_->epoch;
    epoch.bind(1, shard);
    const std::uint64_t current = epoch.step() == SQLITE_ROW ? epoch.number(0) : 0;
    epoch.reset();
    return current;
  }

  int put_record(const std::string& shard, const v1::Record& record) {
    Statement& statement = record.erased() ? statements_->erase : statements_->put;
    statement.bind(1, record.key());
    if (!record.erased()) {
      statement.bind(2, shard).bind(3, record.kind()).bind(4, record.epoch());
      statement.bind(5, record.revision()).bind_blob(6, record.body());
    }
    const int code = statement.step();
    statement.reset();
    return code;
  }

  Result<std::vector<v1::Record>> read(const std::string* shard, const std::string& prefix) {
    std::vector<v1::Record> out;
    const std::string end = after_prefix(prefix);
    Statement& list = statements_->list;
    list.bind(1, prefix).bind(2, end);
    int code = list.step();
    for (; code == SQLITE_ROW; code = list.step()) {
      if (shard != nullptr && list.text(5) != *shard) continue;
      v1::Record& record = out.emplace_back();
      record.set_key(std::string(list.text(0)));
      record.set_kind(std::string(list.text(1)));
      record.set_epoch(list.number(2));
      record.set_revision(list.number(3));
      record.set_body(std::string(list.text(4)));
    }
    list.reset();
    if (code == SQLITE_DONE) return out;
    return Refusal{"StoreDamaged",
                   "cannot read " + path_ + ": " + std::string(sqlite3_errmsg(database_.get())),
                   500};
  }

  void tell(std::vector<SaveRequest>& group, const std::vector<SaveOutcome>& outcomes) {
    if (!watchers_.any()) return;
    auto changes = std::make_shared<std::vector<v1::Record>>();
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (outcomes[i] != SaveOutcome::Saved) continue;
      std::move(group[i].records.begin(), group[i].records.end(), std::back_inserter(*changes));
    }
    watchers_.tell(std::move(changes));
  }

  int execute(const char* sql) {
    return sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  }

  /// After a failed transaction: undone if the disk was full, else the end of the process.
  void roll_back(int code) {
    if (!is_full(code)) {
      spdlog::error("store broken path={} code={} reason={}", path_,
                    sqlite3_extended_errcode(database_.get()), sqlite3_errmsg(database_.get()));
      spdlog::default_logger()->flush();
      _exit(kExitStoreBroken);
    }
    if (sqlite3_get_autocommit(database_.get()) == 0) execute("ROLLBACK");
  }

  bool is_full(int code) const {
    if ((code & 0xff) == SQLITE_FULL) return true;
    // Quotas and file size limits come as a failed write, not as a full disk. A failed sync never
    // counts as full.
    const int error = sqlite3_system_errno(database_.get());
    return sqlite3_extended_errcode(database_.get()) == SQLITE_IOERR_WRITE &&
           (error == ENOSPC || error == EDQUOT || error == EFBIG);
  }

  DataLock lock_;
  Database database_;
  const std::string path_;
  std::unique_ptr<Statements> statements_;
  std::atomic<bool> writable_ = true;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> queue_;
  bool stopping_ = false;
  std::unique_ptr<Worker> telling_;
  Watchers watchers_;
  std::thread writer_;
};

Refusal damaged(const std::string& path, sqlite3* database) {
  return {"StoreDamaged",
          "cannot use the store " + path + ": " + sqlite3_errmsg(database) +
              "; it is left as it is, restore it from a copy",
          500};
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteSettings& settings) {
  auto lock = DataLock::take(settings.directory);
  if (!lock) return lock.refusal();
  const std::string path = settings.directory + "/ebb.db";
  sqlite3* opened = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path.c_str(), &opened, flags,
                                   settings.vfs.empty() ? nullptr : settings.vfs.c_str());
  Database database(opened);
  if (code != SQLITE_OK) return damaged(path, opened);
  sqlite3_extended_result_codes(opened, 1);
  const auto run = [&](const std::string& sql) {
    return sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  };
  int format = 0;
  {
    Statement version(opened, "PRAGMA user_version");
    if (version.step() != SQLITE_ROW) return damaged(path, opened);
    format = static_cast<int>(version.number(0));
  }
  if (format > kFormat) {
    return Refusal{"StoreFormat",
                   path + " has format " + std::to_string(format) + ", this program knows up to " +
                       std::to_string(kFormat),
                   500};
  }
  bool good = run("PRAGMA locking_mode=EXCLUSIVE") && run("PRAGMA journal_mode=WAL") &&
              run("PRAGMA synchronous=FULL") && run("PRAGMA wal_autocheckpoint=4000");
  if (good && settings.pages_max > 0) {
    good = run("PRAGMA max_page_count=" + std::to_string(settings.pages_max));
  }
  good = good && run(kSchema) && run("PRAGMA user_version=" + std::to_string(kFormat));
  if (!good) return damaged(path, opened);
  return std::unique_ptr<Store>(
      std::make_unique<SqliteStore>(std::move(*lock), std::move(database), path));
}

}  // namespace ebb::cluster
