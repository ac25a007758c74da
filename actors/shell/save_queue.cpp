#include "actors/shell/save_queue.hpp"

#include <string_view>
#include <unordered_map>

#include "cluster/clock.hpp"

namespace ebb::actors {
namespace {

std::size_t records_of(const Batch& batch) {
  return batch.effects.saves.size() + batch.effects.births.size();
}

std::vector<v1::Record> merged(const Batches& batches) {
  std::vector<const v1::Record*> all;
  for (const Batch& batch : batches) {
    for (const v1::Record& record : batch.effects.saves) all.push_back(&record);
    for (const v1::Record& record : batch.effects.births) all.push_back(&record);
  }
  std::vector<v1::Record> out;
  out.reserve(all.size());
  std::unordered_map<std::string_view, std::size_t> place;
  for (const v1::Record* record : all) {
    const auto [at, is_new] = place.try_emplace(record->key(), out.size());
    if (is_new) {
      out.push_back(*record);
    } else {
      out[at->second] = *record;
    }
  }
  return out;
}

}  // namespace

void SaveQueue::own(std::string shard, std::uint64_t epoch) {
  shard_ = std::move(shard);
  epoch_ = epoch;
}

void SaveQueue::add(Batch batch) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    waiting_.push_back(std::move(batch));
    if (busy_) return;
    take_next();
  }
  write();
}

bool SaveQueue::take_next() {
  writing_.clear();
  if (closed_) waiting_.clear();
  std::size_t count = 0, records = 0;
  while (count < waiting_.size() && records < kWriteRecordsMax) {
    records += records_of(waiting_[count++]);
  }
  if (count == waiting_.size()) {
    writing_.swap(waiting_);
  } else {
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    writing_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
  }
  busy_ = !writing_.empty();
  at_store_ = busy_;
  if (!busy_) idle_.notify_all();
  return busy_;
}

void SaveQueue::write() {
  // Without records there is nothing to wait for; a loop instead of a call, since more may have
  // come.
  for (;;) {
    std::vector<v1::Record> records = merged(writing_);
    if (!records.empty()) {
      outside_.store.save(shard_, epoch_, std::move(records),
                          [this](cluster::SaveOutcome outcome) { written(outcome); });
      return;
    }
    outside_.release(std::move(writing_));
    std::lock_guard lock(mutex_);
    if (!take_next()) return;
  }
}

void SaveQueue::written(cluster::SaveOutcome outcome) {
  switch (outcome) {
    case cluster::SaveOutcome::Saved: {
      outside_.release(std::move(writing_));
      {
        std::lock_guard lock(mutex_);
        if (!take_next()) return;
      }
      return write();
    }
    case cluster::SaveOutcome::Full: {
      {
        std::lock_guard lock(mutex_);
        at_store_ = false;
        idle_.notify_all();
        if (closed_) return;
      }
      outside_.timer.at(cluster::Clock::mono_ms() + kFullRetryMs, [this] {
        {
          std::lock_guard lock(mutex_);
          if (closed_) return;
          at_store_ = true;
        }
        write();
      });
      return;
    }
    case cluster::SaveOutcome::Deposed: {
      outside_.deposed();
      std::lock_guard lock(mutex_);
      closed_ = true;
      at_store_ = false;
      idle_.notify_all();
      return;
    }
  }
}

void SaveQueue::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  idle_.wait(lock, [this] { return !at_store_; });
  waiting_.clear();
  writing_.clear();
}

}  // namespace ebb::actors
