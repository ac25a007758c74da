#include "cluster/store/memory_store.hpp"

#include <future>

namespace ebb::cluster {

MemoryStore::MemoryStore(Mode mode)
    : telling_(mode == Mode::Threaded ? std::make_unique<Worker>() : nullptr),
      watchers_(telling_.get()),
      saving_(mode == Mode::Threaded ? std::make_unique<Worker>() : nullptr) {}

MemoryStore::~MemoryStore() {
  saving_.reset();
  telling_.reset();
}

Result<std::uint64_t> MemoryStore::acquire(const std::string& shard, const std::string&) {
  std::lock_guard lock(mutex_);
  return ++epochs_[shard];
}

void MemoryStore::save(const std::string& shard, std::uint64_t epoch,
                       std::vector<v1::Record> records, Saved done) {
  Request request{shard, epoch, std::move(records), std::move(done)};
  {
    std::lock_guard lock(mutex_);
    if (held_) {
      waiting_.push_back(std::move(request));
      return;
    }
  }
  if (!saving_) return perform(std::move(request));
  // std::function wants to copy what it holds, a request is only moved.
  auto shared = std::make_shared<Request>(std::move(request));
  saving_->give([this, shared] { perform(std::move(*shared)); });
}

void MemoryStore::perform(Request request) {
  SaveOutcome outcome = SaveOutcome::Saved;
  {
    std::lock_guard lock(mutex_);
    if (epochs_[request.shard] != request.epoch) {
      outcome = SaveOutcome::Deposed;
    } else if (full_) {
      outcome = SaveOutcome::Full;
      writable_ = false;
    } else {
      ++revision_;
      for (v1::Record& record : request.records) {
        record.set_epoch(request.epoch);
        record.set_revision(revision_);
        if (record.erased()) {
          rows_.erase(record.key());
        } else {
          rows_[record.key()] = {request.shard, record};
        }
      }
      writable_ = true;
    }
    if (outcome == SaveOutcome::Saved && watchers_.any() && telling_) {
      watchers_.tell(std::make_shared<std::vector<v1::Record>>(request.records));
    }
  }
  if (outcome == SaveOutcome::Saved && watchers_.any() && !telling_) {
    watchers_.tell(std::make_shared<std::vector<v1::Record>>(std::move(request.records)));
  }
  if (request.done) request.done(outcome);
}

std::vector<v1::Record> MemoryStore::present(const std::string* shard,
                                             const std::string& prefix) const {
  std::vector<v1::Record> out;
  for (auto row = rows_.lower_bound(prefix); row != rows_.end(); ++row) {
    if (!row->first.starts_with(prefix)) break;
    if (shard == nullptr || row->second.shard == *shard) out.push_back(row->second.record);
  }
  return out;
}

Result<std::vector<v1::Record>> MemoryStore::load(const std::string& shard,
                                                  const std::string& key_prefix) {
  if (saving_) {  // behind every save that was called before
    std::promise<void> reached;
    saving_->give([&reached] { reached.set_value(); });
    reached.get_future().wait();
  }
  std::lock_guard lock(mutex_);
  return present(&shard, key_prefix);
}

std::shared_ptr<void> MemoryStore::watch(const std::string& prefix, Watcher watcher) {
  auto watch = std::make_shared<Watch>(prefix, std::move(watcher));
  if (telling_) {
    std::lock_guard lock(mutex_);
    watchers_.add(watch, present(nullptr, prefix));
  } else {
    watchers_.add(watch, present(nullptr, prefix));
  }
  return Watchers::handle_of(watch);
}

void MemoryStore::set_full(bool full) {
  std::lock_guard lock(mutex_);
  full_ = full;
}

void MemoryStore::set_held(bool held) {
  std::vector<Request> waiting;
  {
    std::lock_guard lock(mutex_);
    held_ = held;
    if (!held) waiting.swap(waiting_);
  }
  for (Request& request : waiting) {
    save(request.shard, request.epoch, std::move(request.records), std::move(request.done));
  }
}

}  // namespace ebb::cluster
