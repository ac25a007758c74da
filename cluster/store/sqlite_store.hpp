// The store of one machine: SQLite in WAL mode with synchronous=FULL, in DIRECTORY/ebb.db.
//
// One thread writes. What was queued while one transaction was being written goes into the next, so
// a sync is shared by all who waited for it (group commit). The epoch is compared inside the same
// transaction. Errors: as in store.hpp. `open` refuses a directory that another process holds, a
// file of a newer format and a damaged file, each with a sentence that says so. Any other I/O error
// while writing ends the process (exit code 74). Source: RELIABILITY.md 2.2 to 2.5.
#pragma once
#include <memory>
#include <string>

#include "cluster/store/store.hpp"

namespace ebb::cluster {

struct SqliteSettings {
  std::string directory;
  std::int64_t pages_max = 0;  // of 4096 bytes; 0: only the disk is the limit
  std::string vfs = {};        // of SQLite; empty: the default one. Fault tests bring their own
};

/// Exit code of a process that could not sync its store.
inline constexpr int kExitStoreBroken = 74;

Result<std::unique_ptr<Store>> open_sqlite_store(const SqliteSettings& settings);

}  // namespace ebb::cluster
