#include "actors/shell/host.hpp"

#include <spdlog/spdlog.h>

#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <cstdlib>
#include <deque>
#include <future>

#include "actors/shell/asks.hpp"
#include "actors/shell/decision_log.hpp"
#include "actors/shell/directory.hpp"
#include "actors/shell/machine_actor.hpp"
#include "actors/shell/save_queue.hpp"
#include "cluster/store/worker.hpp"

namespace ebb::actors {
namespace {

constexpr std::size_t kFailuresMax = 3;
constexpr std::int64_t kFailuresWithinMs = 60'000;
constexpr int kExitStopped = 70;

struct CafSettings : caf::actor_system_config {
  explicit CafSettings(unsigned threads) {
    // The default policy, work stealing, was seen to stop for good with two workers under fan-in.
    set("scheduler.policy", caf::atom("sharing"));
    if (threads > 0) set("scheduler.max-threads", std::size_t{threads});
  }
};

bool is_question(const v1::Envelope& envelope) {
  return !envelope.correlation_id().empty() && !envelope.has_reply();
}

}  // namespace

class Host::Inside : public Outside {
 public:
  Inside(HostSettings settings, cluster::Store& store)
      : settings_(std::move(settings)),
        store_(store),
        caf_settings_(settings_.threads),
        system_(std::make_unique<caf::actor_system>(caf_settings_)),
        releasing_(std::make_unique<cluster::Worker>()),
        saves_({.store = store,
                .timer = timer_,
                .release =
                    [this](Batches batches) {
                      auto shared = std::make_shared<Batches>(std::move(batches));
                      releasing_->give([this, shared] { release(*shared); });
                    },
                .deposed =
                    [this] { stop_process("another process owns shard " + settings_.shard); }}) {}

  ~Inside() override {
    stopping_ = true;
    timer_.stop();
    saves_.close();
    releasing_.reset();
    for (const CellPtr& cell : directory_.all()) end_actor(cell);
    directory_.clear();
    system_.reset();  // waits for the actors
  }

  // What machines want.

  Instant now() const override { return settings_.clock.now(); }

  void perform(const CellPtr& cell, Effects effects) override {
    const bool saves = !effects.saves.empty() || !effects.births.empty() || effects.ended;
    Batch batch{cell, std::move(effects), {}};
    if (!saves && cell->held.load(std::memory_order_acquire) == 0) return release_one(batch);
    hold(std::move(batch));
  }

  void wake_later(const CellPtr& cell, std::int64_t mono_ms) override {
    timer_.at(mono_ms, [cell, mono_ms] { wake_actor(cell, mono_ms); });
  }

  void failed(const CellPtr& cell, const std::string& why) override {
    spdlog::error("machine failed actor={} reason={}", cell->address, why);
    bool too_often = false;
    {
      std::lock_guard lock(failures_mutex_);
      const std::int64_t mono_ms = now().mono_ms;
      failures_.push_back(mono_ms);
      while (failures_.front() <= mono_ms - kFailuresWithinMs) failures_.pop_front();
      too_often = failures_.size() > kFailuresMax;
    }
    if (too_often) {
      return stop_process("machines failed more than 3 times in a minute, the last was " +
                          cell->address + ": " + why);
    }
    // Behind what it has saved before it failed.
    hold({cell, {}, [this, cell] { rebuild(cell); }});
  }

  void refuse(const v1::Envelope& envelope, const Refusal& refusal) override {
    auto answer = std::make_shared<v1::Envelope>();
    answer->set_from(envelope.to());
    answer->set_to(envelope.from());
    answer->set_correlation_id(envelope.correlation_id());
    *answer->mutable_reply() = refusal_reply(refusal.code, refusal.message, refusal.http_status);
    route(std::move(answer), true);
  }

  // What programs want.

  Result<Ok> start(std::vector<v1::Record> seed) {
    auto epoch = store_.acquire(settings_.shard, settings_.process);
    if (!epoch) return epoch.refusal();
    epoch_ = *epoch;
    asks_.own(epoch_);
    saves_.own(settings_.shard, epoch_);
    if (!seed.empty()) {
      std::promise<cluster::SaveOutcome> outcome;
      store_.save(settings_.shard, epoch_, std::move(seed),
                  [&](cluster::SaveOutcome o) { outcome.set_value(o); });
      switch (outcome.get_future().get()) {
        case cluster::SaveOutcome::Saved:
          break;
        case cluster::SaveOutcome::Full:
          return Refusal{"StoreFull", "the store has no room", 507};
        case cluster::SaveOutcome::Deposed:
          return Refusal{"Deposed", "another process owns shard " + settings_.shard, 409};
      }
    }
    auto loaded = store_.load(settings_.shard, "");
    if (!loaded) return loaded.refusal();
    std::vector<CellPtr> cells;
    for (auto& records : by_address(std::move(*loaded))) {
      const std::string address(address_of_key(records.front().key()));
      auto built = build(address, records);
      if (!built) return built.refusal();
      cells.push_back(settle(address, std::move(*built)));
    }
    for (const CellPtr& cell : cells) start_actor(cell);
    spdlog::info("host started shard={} epoch={} machines={}", settings_.shard, epoch_,
                 cells.size());
    return Ok{};
  }

  Result<Ok> create(std::vector<v1::Record> records, std::function<void()> born) {
    for (const v1::Record& record : records) {
      const std::string address(address_of_key(record.key()));
      if (directory_.find(address)) {
        return Refusal{"AlreadyExists", "the actor " + address + " lives already", 409};
      }
    }
    Batch batch;
    batch.effects.births = std::move(records);
    batch.after = std::move(born);
    saves_.add(std::move(batch));
    return Ok{};
  }

  bool hosts(const std::string& address) const { return directory_.find(address) != nullptr; }

  std::vector<std::string> addresses() const {
    std::vector<std::string> out;
    for (const CellPtr& cell : directory_.all()) out.push_back(cell->address);
    return out;
  }

  void add_endpoint(std::string address, Received received) {
    std::unique_lock lock(outside_mutex_);
    endpoints_[std::move(address)] = std::make_shared<const Received>(std::move(received));
  }

  void use(std::shared_ptr<cluster::Link> link) {
    std::unique_lock lock(outside_mutex_);
    link_ = std::move(link);
  }

  void send(v1::Envelope envelope) {
    auto shared = std::make_shared<v1::Envelope>(std::move(envelope));
    if (!route(shared, true)) not_found(*shared);
  }

  void deliver(cluster::EnvelopePtr envelope) {
    if (!route_here(envelope)) not_found(*envelope);
  }

  void ask(v1::Envelope envelope, std::int64_t timeout_ms, Answered answered) {
    const std::string id = asks_.open(std::move(answered));
    // Answers come from another thread than the caller's, also those known at once.
    const auto answer_at = [this, id](std::int64_t mono_ms, v1::Reply reply) {
      timer_.at(mono_ms, [this, id, reply = std::move(reply)] { asks_.answer(id, reply); });
    };
    if (!store_.writable() && !only_reads(envelope)) {
      return answer_at(0, refusal_reply("StoreFull",
                                        "the disk of the store is full: nothing can be created or "
                                        "changed until there is room",
                                        507));
    }
    const std::string to = envelope.to();
    const bool reads = only_reads(envelope);
    auto shared = std::make_shared<v1::Envelope>(std::move(envelope));
    shared->set_from(settings_.reply_address);
    shared->set_correlation_id(id);
    if (!route(std::move(shared), true)) {
      return answer_at(0, refusal_reply("NotFound", "there is no " + to, 404));
    }
    timer_.at(now().mono_ms + timeout_ms, [this, id, to, timeout_ms, reads] {
      const bool full = !store_.writable() && !reads;
      asks_.answer(id, refusal_reply(full ? "StoreFull" : "Timeout",
                                     (full ? "the disk of the store is full; " : "") + to +
                                         " did not answer within " + std::to_string(timeout_ms) +
                                         " ms; whether it was done is not known",
                                     full ? 507 : 504));
    });
  }

  cluster::Store& store() { return store_; }
  std::vector<cluster::DecisionLine> decisions(std::uint64_t after, std::size_t at_most) const {
    return decisions_.after(after, at_most);
  }
  std::uint64_t epoch() const { return epoch_; }

 private:
  // Ways of an envelope.

  /// Fills in what the sender does not know, and brings it to its receiver, here or over the link.
  bool route(std::shared_ptr<v1::Envelope> envelope, bool is_ours) {
    if (is_ours) {
      envelope->set_cluster(settings_.cluster);
      envelope->set_from_epoch(epoch_);
      envelope->set_message_id(++sent_);
    }
    if (route_here(envelope)) return true;
    std::shared_ptr<cluster::Link> link;
    {
      std::shared_lock lock(outside_mutex_);
      link = link_;
    }
    return link != nullptr && link->send(std::move(envelope));
  }

  bool route_here(const cluster::EnvelopePtr& envelope) {
    if (stopping_) return true;
    if (const CellPtr cell = directory_.find(envelope->to())) {
      tell_actor(cell, envelope);
      return true;
    }
    if (envelope->has_reply() && envelope->to() == settings_.reply_address) {
      asks_.answer(envelope->correlation_id(), envelope->reply());
      return true;
    }
    std::shared_ptr<const Received> endpoint;
    {
      std::shared_lock lock(outside_mutex_);
      const auto found = endpoints_.find(envelope->to());
      if (found == endpoints_.end()) return false;
      endpoint = found->second;
    }
    (*endpoint)(envelope);
    return true;
  }

  /// A question to nobody is refused; anything else is dropped, machines repeat what matters.
  void not_found(const v1::Envelope& envelope) {
    if (is_question(envelope)) refuse(envelope, {"NotFound", "there is no " + envelope.to(), 404});
  }

  // Effects, on their way and released.

  void hold(Batch batch) {
    batch.cell->held.fetch_add(1, std::memory_order_relaxed);
    saves_.add(std::move(batch));
  }

  void release(Batches& batches) {
    for (Batch& batch : batches) {
      for (auto& records : by_address(std::move(batch.effects.births))) be_born(records);
      release_one(batch);
      if (batch.cell) {
        if (batch.effects.ended) forget(batch.cell);
        // After its sends: from now on the machine may send past the queue.
        batch.cell->held.fetch_sub(1, std::memory_order_release);
      }
      if (batch.after) batch.after();
    }
  }

  void release_one(Batch& batch) {
    Effects& effects = batch.effects;
    if (!effects.decisions.empty() || !effects.alarms.empty()) log(batch);
    for (v1::Envelope& send : effects.sends) {
      auto envelope = std::make_shared<v1::Envelope>(std::move(send));
      if (batch.cell) envelope->set_from(batch.cell->address);
      if (!route(envelope, true)) not_found(*envelope);
    }
  }

  void log(Batch& batch) {
    const std::string& address = batch.cell->address;
    for (const std::string& line : batch.effects.decisions)
      spdlog::info("{} actor={}", line, address);
    for (const std::string& line : batch.effects.alarms) spdlog::warn("{} actor={}", line, address);
    if (!batch.effects.decisions.empty()) {
      decisions_.add(address, std::move(batch.effects.decisions), now().wall_ms);
    }
  }

  // Lives.

  /// First half of the stamps a machine makes. A machine rebuilt within one ownership has forgotten
  /// its versions, so it must count as a newer owner of its conversations; only the store and the
  /// envelopes know the shard's epoch itself.
  std::uint64_t stamp_epoch() const { return (epoch_ << 16) + rebuilds_; }

  Result<MachinePtr> build(const std::string& address, const std::vector<v1::Record>& records) {
    std::string why = "its record cannot be read";
    try {
      if (MachinePtr machine =
              settings_.factory({.address = address, .epoch = stamp_epoch()}, records)) {
        return machine;
      }
    } catch (const std::exception& error) {
      why = error.what();
    }
    return Refusal{"StoreDamaged", "cannot build " + address + ": " + why, 500};
  }

  CellPtr settle(const std::string& address, MachinePtr machine) {
    auto cell = std::make_shared<Cell>();
    cell->address = address;
    spawn_actor(*system_, cell, std::move(machine), *this);
    if (!directory_.add(address, cell)) {
      end_actor(cell);
      spdlog::error("born twice actor={}", address);
      return nullptr;
    }
    return cell;
  }

  void be_born(const std::vector<v1::Record>& records) {
    const std::string address(address_of_key(records.front().key()));
    auto built = build(address, records);
    if (!built) return stop_process(built.refusal().message);
    if (const CellPtr cell = settle(address, std::move(*built))) start_actor(cell);
  }

  void forget(const CellPtr& cell) {
    directory_.remove(cell->address, cell);
    end_actor(cell);
  }

  void rebuild(const CellPtr& cell) {
    ++rebuilds_;
    auto loaded = store_.load(settings_.shard, cell->address);
    if (!loaded) return stop_process(loaded.refusal().message);
    std::erase_if(*loaded, [&](const v1::Record& record) {
      return address_of_key(record.key()) != cell->address;
    });
    auto built = build(cell->address, *loaded);
    if (!built) return stop_process(built.refusal().message);
    spdlog::warn("machine rebuilt actor={} records={}", cell->address, loaded->size());
    restore_actor(cell, std::move(*built));
  }

  /// Records with one address together, its own record first.
  static std::vector<std::vector<v1::Record>> by_address(std::vector<v1::Record> records) {
    std::vector<std::vector<v1::Record>> out;
    std::unordered_map<std::string, std::size_t> place;
    for (v1::Record& record : records) {
      const auto [at, is_new] =
          place.try_emplace(std::string(address_of_key(record.key())), out.size());
      if (is_new) out.emplace_back();
      out[at->second].push_back(std::move(record));
    }
    return out;
  }

  void stop_process(const std::string& why) {
    if (stopped_.exchange(true)) return;
    spdlog::error("process stops reason={}", why);
    if (settings_.stop_process) return settings_.stop_process(why);
    spdlog::default_logger()->flush();
    std::_Exit(kExitStopped);
  }

  const HostSettings settings_;
  cluster::Store& store_;
  std::uint64_t epoch_ = 0;
  std::atomic<std::uint64_t> rebuilds_ = 0;
  CafSettings caf_settings_;
  std::unique_ptr<caf::actor_system> system_;
  Directory directory_;
  Asks asks_;
  DecisionLog decisions_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<std::uint64_t> sent_ = 0;
  mutable std::shared_mutex outside_mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Received>> endpoints_;
  std::shared_ptr<cluster::Link> link_;
  std::mutex failures_mutex_;
  std::deque<std::int64_t> failures_;  // when, mono_ms
  Timer timer_;
  std::unique_ptr<cluster::Worker> releasing_;
  SaveQueue saves_;
};

Host::Host(HostSettings settings, cluster::Store& store)
    : inside_(std::make_unique<Inside>(std::move(settings), store)) {}
Host::~Host() = default;
Result<Ok> Host::start(std::vector<v1::Record> seed) { return inside_->start(std::move(seed)); }
Result<Ok> Host::create(std::vector<v1::Record> records, std::function<void()> born) {
  return inside_->create(std::move(records), std::move(born));
}
bool Host::hosts(const std::string& address) const { return inside_->hosts(address); }
std::vector<std::string> Host::addresses() const { return inside_->addresses(); }
void Host::add_endpoint(std::string address, Received received) {
  inside_->add_endpoint(std::move(address), std::move(received));
}
void Host::send(v1::Envelope envelope) { inside_->send(std::move(envelope)); }
void Host::use(std::shared_ptr<cluster::Link> link) { inside_->use(std::move(link)); }
void Host::deliver(cluster::EnvelopePtr envelope) { inside_->deliver(std::move(envelope)); }
void Host::ask(v1::Envelope envelope, std::int64_t timeout_ms, Answered answered) {
  inside_->ask(std::move(envelope), timeout_ms, std::move(answered));
}
cluster::Store& Host::store() { return inside_->store(); }
std::int64_t Host::wall_ms() const { return inside_->now().wall_ms; }
std::vector<cluster::DecisionLine> Host::decisions(std::uint64_t after, std::size_t at_most) const {
  return inside_->decisions(after, at_most);
}
Instant Host::now() const { return inside_->now(); }
std::uint64_t Host::epoch() const { return inside_->epoch(); }

}  // namespace ebb::actors
