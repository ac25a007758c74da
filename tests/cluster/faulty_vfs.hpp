// A file system for SQLite that counts syncs and, when told to, fails them: the default one with
// another xSync.
#pragma once
#include <sqlite3.h>

#include <atomic>
#include <map>

namespace ebb::tests {

inline std::atomic<int> syncs_made = 0;
inline std::atomic<bool> syncs_fail = false;

struct FaultyVfs {
  static constexpr const char* kName = "faulty";
  /// Registered once, for the life of the program.
  static void use() {
    if (sqlite3_vfs_find(kName) != nullptr) return;
    static sqlite3_vfs vfs = *sqlite3_vfs_find(nullptr);
    vfs.zName = kName;
    vfs.pNext = nullptr;
    vfs.xOpen = [](sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
      sqlite3_vfs* base = sqlite3_vfs_find(nullptr);
      const int code = base->xOpen(base, name, file, flags, out);
      if (code != SQLITE_OK || file->pMethods == nullptr) return code;
      // Files of different kinds have different methods, all with the same xSync.
      static std::map<const sqlite3_io_methods*, sqlite3_io_methods> wrapped;
      static int (*base_sync)(sqlite3_file*, int) = file->pMethods->xSync;
      const auto [at, is_new] = wrapped.try_emplace(file->pMethods, *file->pMethods);
      if (is_new) {
        at->second.xSync = [](sqlite3_file* f, int how) {
          ++syncs_made;
          return syncs_fail ? SQLITE_IOERR_FSYNC : base_sync(f, how);
        };
      }
      file->pMethods = &at->second;
      return code;
    };
    sqlite3_vfs_register(&vfs, 0);
  }
};

}  // namespace ebb::tests
