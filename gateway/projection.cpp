#include "gateway/projection.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/assert.hpp"
#include "gateway/translation/workload_json.hpp"

namespace ebb::gateway {
namespace {

constexpr std::size_t kPendingMax = 4'096;

constexpr const char* kTables = R"sql(
CREATE TABLE records(key TEXT PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX records_kind ON records(kind);
CREATE TABLE workloads(
  key TEXT PRIMARY KEY, id TEXT NOT NULL, product INT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
  quota TEXT NOT NULL, workspace TEXT NOT NULL, user TEXT NOT NULL, job_type TEXT NOT NULL, priority INT NOT NULL,
  created INT NOT NULL, finished INT NOT NULL, gpu INT NOT NULL, idle INT NOT NULL, private INT NOT NULL,
  cron INT NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX workloads_created ON workloads(product, created);
)sql";

}  // namespace

class Projection::Database {
 public:
  Database() {
    EBB_ASSERT(sqlite3_open_v2(":memory:", &db_,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                               nullptr) == SQLITE_OK);
    EBB_ASSERT(sqlite3_exec(db_, kTables, nullptr, nullptr, nullptr) == SQLITE_OK);
  }
  ~Database() { sqlite3_close(db_); }
  Database(const Database&) = delete;

  /// One statement with bound values, closed at the end of its life.
  class Statement {
   public:
    Statement(sqlite3* db, const std::string& sql) {
      EBB_ASSERT(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr) == SQLITE_OK);
    }
    ~Statement() { sqlite3_finalize(statement_); }
    Statement(const Statement&) = delete;
    Statement& bind(const std::string& text) {
      sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                        SQLITE_TRANSIENT);
      return *this;
    }
    Statement& bind(std::int64_t number) {
      sqlite3_bind_int64(statement_, ++bound_, number);
      return *this;
    }
    Statement& bind_blob(const std::string& bytes) {
      sqlite3_bind_blob(statement_, ++bound_, bytes.data(), static_cast<int>(bytes.size()),
                        SQLITE_TRANSIENT);
      return *this;
    }
    bool step() {
      const int result = sqlite3_step(statement_);
      EBB_ASSERT(result == SQLITE_ROW || result == SQLITE_DONE);
      return result == SQLITE_ROW;
    }
    std::int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
    template <class Message>
    bool message(int column, Message* out) {
      return out->ParseFromArray(sqlite3_column_blob(statement_, column),
                                 sqlite3_column_bytes(statement_, column));
    }

   private:
    sqlite3_stmt* statement_ = nullptr;
    int bound_ = 0;
  };

  Statement prepare(const std::string& sql) { return Statement(db_, sql); }

  void told(const v1::Record& record) {
    const std::scoped_lock lock(pending_mutex_);
    pending_[record.key()] = record;
    if (pending_.size() < kPendingMax) return;
    // Nobody reads: write now, so that what is kept stays bounded.
    const std::unique_lock reading(mutex, std::try_to_lock);
    if (reading) write_pending();
  }

  /// To be called with `mutex` held.
  void catch_up() {
    const std::scoped_lock lock(pending_mutex_);
    write_pending();
  }

  std::mutex mutex;  // of the database

 private:
  void write_pending() {
    if (pending_.empty()) return;
    prepare("BEGIN").step();
    for (const auto& entry : pending_) write(entry.second);
    prepare("COMMIT").step();
    pending_.clear();
  }

  void write(const v1::Record& record) {
    if (record.kind() == "WorkloadRecord") return write_workload(record);
    if (record.kind() != "QuotaRecord" && record.kind() != "WorkspaceRecord" &&
        record.kind() != "TenantRecord") {
      return;
    }
    if (record.erased()) {
      prepare("DELETE FROM records WHERE key = ?").bind(record.key()).step();
    } else {
      prepare("INSERT OR REPLACE INTO records VALUES(?, ?, ?)")
          .bind(record.key())
          .bind(record.kind())
          .bind_blob(record.body())
          .step();
    }
  }

  void write_workload(const v1::Record& record) {
    v1::WorkloadRecord workload;
    if (record.erased() || !workload.ParseFromString(record.body()) || workload.removed()) {
      prepare("DELETE FROM workloads WHERE key = ?").bind(record.key()).step();
      return;
    }
    const v1::WorkloadSpec& spec = workload.spec();
    std::int64_t gpu_milli = 0;
    for (const v1::RoleSpec& role : spec.roles())
      gpu_milli += role.each().gpu_milli() * role.pods();
    prepare("INSERT OR REPLACE INTO workloads VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")
        .bind(record.key())
        .bind(spec.id())
        .bind(spec.product())
        .bind(spec.name())
        .bind(workload.status())
        .bind(spec.quota_id())
        .bind(spec.workspace_id())
        .bind(spec.user())
        .bind(spec.job_type())
        .bind(spec.priority())
        .bind(spec.created_wall_ms())
        .bind(workload.finished_wall_ms())
        .bind(gpu_milli)
        .bind(uses_idle(workload) ? 1 : 0)
        .bind(spec.is_private() ? 1 : 0)
        .bind(workload.cron().jobs_size() > 0 ? 1 : 0)
        .bind_blob(record.body())
        .step();
  }

  sqlite3* db_ = nullptr;
  std::mutex pending_mutex_;
  std::map<std::string, v1::Record> pending_;
};

Projection::Projection(cluster::Store& store) : database_(std::make_unique<Database>()) {
  watch_ = store.watch(
      "", [database = database_.get()](const v1::Record& record) { database->told(record); });
}

Projection::~Projection() { watch_.reset(); }

namespace {

/// WHERE clause and its values, built together.
class Where {
 public:
  void is_one_of(const char* column, const std::vector<std::string>& values) {
    if (values.empty()) return;
    std::string marks;
    for (const std::string& value : values) {
      marks += marks.empty() ? "?" : ",?";
      texts_.push_back(value);
    }
    add(std::string(column) + " IN (" + marks + ")");
  }
  void contains(const char* column, const std::string& part) {
    add("instr(lower(" + std::string(column) + "), lower(?)) > 0");
    texts_.push_back(part);
  }
  /// The number is ours, never text of a request.
  void number(const char* column, const char* comparison, std::int64_t value) {
    add(std::string(column) + " " + comparison + " " + std::to_string(value));
  }
  const std::string& text() const { return text_; }
  template <class Statement>
  void bind(Statement& statement) const {
    for (const std::string& text : texts_) statement.bind(text);
  }

 private:
  void add(const std::string& condition) {
    text_ += (text_.empty() ? " WHERE " : " AND ") + condition;
  }
  std::string text_;
  std::vector<std::string> texts_;
};

const char* sort_column(const std::string& sort) {
  static const std::map<std::string, const char*> kColumns = {{"name", "name"},
                                                              {"status", "status"},
                                                              {"priority", "priority"},
                                                              {"finished", "finished"},
                                                              {"gpu", "gpu"}};
  const auto it = kColumns.find(sort);
  return it == kColumns.end() ? "created" : it->second;
}

}  // namespace

Page<v1::WorkloadRecord> Projection::workloads(const WorkloadFilter& filter,
                                               PageWanted page) const {
  Where where;
  if (filter.product != v1::PRODUCT_UNSPECIFIED) where.number("product", "=", filter.product);
  where.is_one_of("id", filter.ids);
  where.is_one_of("quota", filter.quota_ids);
  where.is_one_of("workspace", filter.workspace_ids);
  where.is_one_of("status", filter.statuses);
  where.is_one_of("user", filter.users);
  where.is_one_of("job_type", filter.job_types);
  if (!filter.name.empty() && filter.whole_name) where.is_one_of("name", {filter.name});
  if (!filter.name.empty() && !filter.whole_name) where.contains("name", filter.name);
  if (filter.uses_idle) where.number("idle", "=", *filter.uses_idle ? 1 : 0);
  if (filter.is_private) where.number("private", "=", *filter.is_private ? 1 : 0);
  if (filter.has_cron) where.number("cron", "=", *filter.has_cron ? 1 : 0);
  if (filter.created_from_ms) where.number("created", ">=", *filter.created_from_ms);
  if (filter.created_to_ms) where.number("created", "<=", *filter.created_to_ms);

  const std::scoped_lock lock(database_->mutex);
  database_->catch_up();
  Page<v1::WorkloadRecord> result;
  auto count = database_->prepare("SELECT count(*) FROM workloads" + where.text());
  where.bind(count);
  if (count.step()) result.total = count.number(0);
  const std::string order = filter.descending ? " DESC" : " ASC";
  auto rows =
      database_->prepare("SELECT body FROM workloads" + where.text() + " ORDER BY " +
                         sort_column(filter.sort) + order + ", key" + order + " LIMIT ? OFFSET ?");
  where.bind(rows);
  rows.bind(page.size).bind((page.number - 1) * page.size);
  while (rows.step()) {
    v1::WorkloadRecord& record = result.items.emplace_back();
    if (!rows.message(0, &record)) result.items.pop_back();
  }
  return result;
}

std::optional<v1::WorkloadRecord> Projection::workload(const std::string& address) const {
  const std::scoped_lock lock(database_->mutex);
  database_->catch_up();
  auto row = database_->prepare("SELECT body FROM workloads WHERE key = ?");
  row.bind(address);
  v1::WorkloadRecord record;
  if (!row.step() || !row.message(0, &record)) return std::nullopt;
  return record;
}

namespace {

template <class Message, class Database>
std::vector<Message> all_of(Database& database, const char* kind) {
  const std::scoped_lock lock(database.mutex);
  database.catch_up();
  auto rows = database.prepare("SELECT body FROM records WHERE kind = ? ORDER BY key");
  rows.bind(std::string(kind));
  std::vector<Message> found;
  while (rows.step()) {
    Message& message = found.emplace_back();
    if (!rows.message(0, &message)) found.pop_back();
  }
  return found;
}

template <class Message, class Database>
std::optional<Message> one_of(Database& database, const std::string& key) {
  const std::scoped_lock lock(database.mutex);
  database.catch_up();
  auto row = database.prepare("SELECT body FROM records WHERE key = ?");
  row.bind(key);
  Message message;
  if (!row.step() || !row.message(0, &message)) return std::nullopt;
  return message;
}

}  // namespace

std::vector<v1::QuotaRecord> Projection::quotas() const {
  auto found = all_of<v1::QuotaRecord>(*database_, "QuotaRecord");
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.spec().created_wall_ms() < b.spec().created_wall_ms();
  });
  return found;
}
std::optional<v1::QuotaRecord> Projection::quota(const std::string& id) const {
  return one_of<v1::QuotaRecord>(*database_, "quota/" + id);
}
std::vector<v1::WorkspaceRecord> Projection::workspaces() const {
  auto found = all_of<v1::WorkspaceRecord>(*database_, "WorkspaceRecord");
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.spec().created_wall_ms() < b.spec().created_wall_ms();
  });
  return found;
}
std::optional<v1::WorkspaceRecord> Projection::workspace(const std::string& id) const {
  return one_of<v1::WorkspaceRecord>(*database_, "workspace/" + id);
}
v1::TenantRecord Projection::tenant() const {
  return one_of<v1::TenantRecord>(*database_, "tenant").value_or(v1::TenantRecord{});
}

}  // namespace ebb::gateway
