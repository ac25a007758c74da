// What machines did, on its way to be durable and then to be released, in the order it was done.
//
// One write is under way at a time; all batches that come meanwhile go into the next one together,
// where of several records with one key only the last is written. So an older record can never
// overwrite a newer one, also when the disk was full in between. Batches without records only keep
// their place.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/machine.hpp"
#include "actors/shell/timer.hpp"
#include "cluster/store/store.hpp"

namespace ebb::actors {

struct Cell;

/// The effects of one call of a machine (or of one birth from outside).
struct Batch {
  std::shared_ptr<Cell> cell;  // whose; null: from outside
  Effects effects;
  std::function<void()> after;  // done last, when all is durable and released
};
using Batches = std::vector<Batch>;

class SaveQueue {
 public:
  static constexpr std::int64_t kFullRetryMs = 500;
  static constexpr std::size_t kWriteRecordsMax = 4096;
  struct Outside {
    cluster::Store& store;
    Timer& timer;
    /// Gets what has become durable, in order, from one thread at a time; must not wait.
    std::function<void(Batches)> release;
    std::function<void()> deposed;
  };
  explicit SaveQueue(Outside outside) : outside_(std::move(outside)) {}

  void own(std::string shard, std::uint64_t epoch);
  void add(Batch batch);
  /// Takes nothing more and waits until no write is under way. What has not been handed to the
  /// store is dropped.
  void close();

 private:
  bool take_next();  // with the mutex held; false: nothing to write
  void write();
  void written(cluster::SaveOutcome outcome);

  Outside outside_;
  std::string shard_;
  std::uint64_t epoch_ = 0;
  std::mutex mutex_;
  std::condition_variable idle_;
  Batches waiting_;
  Batches writing_;
  bool busy_ = false;      // someone is writing, releasing or waiting for room
  bool at_store_ = false;  // the store will call back
  bool closed_ = false;
};

}  // namespace ebb::actors
