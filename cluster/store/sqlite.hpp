// SQLite's handles as owners, and the few calls the store needs.
#pragma once
#include <sqlite3.h>

#include <memory>
#include <string>
#include <string_view>

namespace ebb::cluster {

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

/// A prepared statement. Bound text and blobs must live until the next reset().
class Statement {
 public:
  Statement(sqlite3* database, std::string_view sql) {
    sqlite3_prepare_v3(database, sql.data(), static_cast<int>(sql.size()),
                       SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }
  Statement& bind(int at, std::string_view text) {
    sqlite3_bind_text64(statement_, at, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
    return *this;
  }
  Statement& bind(int at, std::uint64_t number) {
    sqlite3_bind_int64(statement_, at, static_cast<sqlite3_int64>(number));
    return *this;
  }
  Statement& bind_blob(int at, std::string_view bytes) {
    sqlite3_bind_blob64(statement_, at, bytes.data(), bytes.size(), SQLITE_STATIC);
    return *this;
  }
  /// SQLITE_ROW, SQLITE_DONE or an error. A null statement (it could not be prepared) gives
  /// SQLITE_MISUSE.
  int step() { return statement_ == nullptr ? SQLITE_MISUSE : sqlite3_step(statement_); }
  void reset() { sqlite3_reset(statement_); }
  std::string_view text(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  std::uint64_t number(int column) const {
    return static_cast<std::uint64_t>(sqlite3_column_int64(statement_, column));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace ebb::cluster
