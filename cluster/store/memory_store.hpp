// A store that forgets at the end of the process: for tests and for the simulated world.
#pragma once
#include <map>
#include <mutex>

#include "cluster/store/watchers.hpp"

namespace ebb::cluster {

class MemoryStore : public Store {
 public:
  /// Synchronous: `done` and watchers are called before save() and watch() return, and there is no
  /// thread. Threaded: as the store on disk does, from own threads.
  enum class Mode { Synchronous, Threaded };
  explicit MemoryStore(Mode mode);
  ~MemoryStore() override;

  Result<std::uint64_t> acquire(const std::string& shard, const std::string& process) override;
  void save(const std::string& shard, std::uint64_t epoch, std::vector<v1::Record> records,
            Saved done) override;
  Result<std::vector<v1::Record>> load(const std::string& shard,
                                       const std::string& key_prefix = "") override;
  std::shared_ptr<void> watch(const std::string& prefix, Watcher watcher) override;
  bool writable() const override { return writable_; }

  /// Faults. Full: saves are answered with Full until it is lifted. Held: saves are neither made
  /// nor answered until it is lifted, then in their order.
  void set_full(bool full);
  void set_held(bool held);

 private:
  struct Request {
    std::string shard;
    std::uint64_t epoch;
    std::vector<v1::Record> records;
    Saved done;
  };
  struct Row {
    std::string shard;
    v1::Record record;
  };
  void perform(Request request);
  std::vector<v1::Record> present(const std::string* shard, const std::string& prefix) const;

  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> epochs_;
  std::map<std::string, Row> rows_;
  std::uint64_t revision_ = 0;
  std::atomic<bool> writable_ = true;
  bool full_ = false;
  bool held_ = false;
  std::vector<Request> waiting_;
  std::unique_ptr<Worker> telling_;
  Watchers watchers_;
  std::unique_ptr<Worker> saving_;
};

}  // namespace ebb::cluster
