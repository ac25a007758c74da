// The store: records of actors, durable, fenced by the owner's epoch (DESIGN section 6, RELIABILITY
// rules R2 to R5).
//
// Errors: `SaveOutcome::Deposed` when the epoch is not the shard's current one: nothing of the
// batch was saved, the caller must stop. `Full` when the disk has no room: nothing was saved, the
// same batch may be tried again. An I/O error on sync ends the process: what the disk holds is then
// unknown, and nothing unsaved was told to anyone.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/envelope.pb.h"

namespace ebb::cluster {

enum class SaveOutcome { Saved, Deposed, Full };

class Store {
 public:
  using Saved = std::function<void(SaveOutcome)>;
  using Watcher = std::function<void(const v1::Record&)>;
  virtual ~Store() = default;

  /// Makes `process` the owner of `shard`: the epoch rises by one, saves under older epochs are
  /// refused from now on.
  virtual Result<std::uint64_t> acquire(const std::string& shard, const std::string& process) = 0;
  /// Saves all records or none, durably. Calls `done` once, from the store's own thread, in the
  /// order of the calls. Calls that come while one is being written share its successor's sync
  /// (group commit). `done` must not wait: the next write starts after it.
  virtual void save(const std::string& shard, std::uint64_t epoch, std::vector<v1::Record> records,
                    Saved done) = 0;
  /// The records of a shard whose key starts with `key_prefix` and that were not erased, ordered by
  /// key. It sees every save that was called before it. Must not be called from `done` or from a
  /// watcher.
  virtual Result<std::vector<v1::Record>> load(const std::string& shard,
                                               const std::string& key_prefix = "") = 0;
  /// Calls `watcher` for each present record (of any shard) whose key starts with `prefix`, then
  /// for each change, in order, from a thread of the store's own that saves do not wait for. Erased
  /// records come with `erased` set. Ends when the returned handle is let go: no call is running or
  /// follows after that.
  virtual std::shared_ptr<void> watch(const std::string& prefix, Watcher watcher) = 0;
  /// False while the last save found the disk full: new work is to be refused.
  virtual bool writable() const = 0;
};

}  // namespace ebb::cluster
