// Which machine lives here under which address. Many threads look up at once.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace ebb::actors {

struct Cell;
using CellPtr = std::shared_ptr<Cell>;

class Directory {
 public:
  CellPtr find(const std::string& address) const {
    const Shard& shard = shard_of(address);
    std::shared_lock lock(shard.mutex);
    const auto found = shard.cells.find(address);
    return found == shard.cells.end() ? nullptr : found->second;
  }
  /// False if the address is taken.
  bool add(const std::string& address, CellPtr cell) {
    Shard& shard = shard_of(address);
    std::unique_lock lock(shard.mutex);
    return shard.cells.emplace(address, std::move(cell)).second;
  }
  void remove(const std::string& address, const CellPtr& cell) {
    Shard& shard = shard_of(address);
    std::unique_lock lock(shard.mutex);
    const auto found = shard.cells.find(address);
    if (found != shard.cells.end() && found->second == cell) shard.cells.erase(found);
  }
  std::vector<CellPtr> all() const {
    std::vector<CellPtr> out;
    for (const Shard& shard : shards_) {
      std::shared_lock lock(shard.mutex);
      for (const auto& [address, cell] : shard.cells) out.push_back(cell);
    }
    return out;
  }
  void clear() {
    for (Shard& shard : shards_) {
      std::unique_lock lock(shard.mutex);
      shard.cells.clear();
    }
  }

 private:
  struct Shard {
    mutable std::shared_mutex mutex;
    std::unordered_map<std::string, CellPtr> cells;
  };
  const Shard& shard_of(const std::string& address) const {
    return shards_[std::hash<std::string>()(address) % shards_.size()];
  }
  Shard& shard_of(const std::string& address) {
    return shards_[std::hash<std::string>()(address) % shards_.size()];
  }
  std::array<Shard, 32> shards_;
};

}  // namespace ebb::actors
