#include "sim/world/world.hpp"

#include <algorithm>

namespace ebb::sim {
namespace {
constexpr std::int64_t kLatencyMs = 1;
constexpr std::int64_t kMonoAtBegin = 1'000'000;
constexpr const char* kAsker = "gateway/ask";
}  // namespace

World::World(std::uint64_t seed, std::int64_t begin_wall_ms, Faults faults)
    : random_(seed),
      wall_ms_(begin_wall_ms),
      mono_offset_(begin_wall_ms - kMonoAtBegin),
      faults_(faults) {}

Instant World::now() const { return {wall_ms_ - mono_offset_, wall_ms_, 1.0}; }

void World::at(std::int64_t wall_ms, std::function<void()> what) {
  events_.push({std::max(wall_ms, wall_ms_), ++next_event_, std::move(what)});
}

bool World::run_until(std::int64_t wall_ms, std::uint64_t steps_max) {
  for (std::uint64_t steps = 0; !events_.empty() && events_.top().wall_ms <= wall_ms; ++steps) {
    if (steps >= steps_max) return false;
    const Event event = events_.top();
    events_.pop();
    wall_ms_ = event.wall_ms;
    ++counters_.steps;
    event.what();
    if (after_step) after_step();
  }
  wall_ms_ = std::max(wall_ms_, wall_ms);
  return true;
}

void World::put(std::string key, std::string kind, const google::protobuf::MessageLite& body) {
  v1::Record record;
  record.set_key(key);
  record.set_kind(std::move(kind));
  body.SerializeToString(record.mutable_body());
  records_[std::move(key)] = std::move(record);
}

void World::save(v1::Record record, std::uint64_t epoch) {
  record.set_epoch(epoch);
  if (on_save) on_save(record);
  if (record.erased()) {
    records_.erase(record.key());
  } else {
    records_[record.key()] = std::move(record);
  }
}

void World::boot(const std::string& address) {
  std::vector<v1::Record> own;
  const auto first = records_.find(address);
  if (first != records_.end()) own.push_back(first->second);
  for (auto it = records_.lower_bound(address + "#");
       it != records_.end() && it->first.starts_with(address + "#"); ++it) {
    own.push_back(it->second);
  }
  // Records that were written before the world began are of epoch 1.
  std::uint64_t& epoch = epochs_[address];
  epoch = std::max<std::uint64_t>(2, epoch + 1);
  Living living;
  living.epoch = epoch;
  living.machine = actors::make_machine({address, epoch}, own);
  EBB_ASSERT(living.machine != nullptr);
  Living& kept = machines_[address] = std::move(living);
  actors::Effects effects;
  kept.machine->start(now(), effects);
  perform(address, std::move(effects));
}

void World::crash(const std::string& address) { machines_.erase(address); }

void World::perform(const std::string& address, actors::Effects effects) {
  const auto self = machines_.find(address);
  const std::uint64_t epoch = self->second.epoch;
  for (v1::Record& record : effects.saves) save(std::move(record), epoch);
  std::vector<std::string> born;
  for (v1::Record& record : effects.births) {
    born.push_back(record.key());
    save(std::move(record), epoch);
  }
  if (on_decision) {
    for (const std::string& line : effects.decisions) on_decision(address, line);
    for (const std::string& line : effects.alarms) on_decision(address, "alarm: " + line);
  }
  for (v1::Envelope& envelope : effects.sends) {
    envelope.set_from(address);
    envelope.set_from_epoch(epoch);
    if (asked_ != nullptr && envelope.to() == kAsker) {
      *asked_ = envelope.reply();
    } else {
      post(std::move(envelope));
    }
  }
  if (effects.wake_at_mono_ms) {
    const std::uint64_t number = self->second.wake = ++next_wake_;
    at(*effects.wake_at_mono_ms + mono_offset_, [this, address, number] {
      const auto found = machines_.find(address);
      if (found == machines_.end() || found->second.wake != number) return;
      actors::Effects effects;
      found->second.machine->wake(now(), effects);
      perform(address, std::move(effects));
    });
  }
  if (effects.ended) machines_.erase(self);
  for (const std::string& child : born) boot(child);
}

void World::post(v1::Envelope envelope) {
  ++counters_.sent;
  envelope.set_message_id(++next_message_);
  const bool inside = envelope.has_launcher() || envelope.from().starts_with("launcher/");
  int copies = 1;
  if (!inside && random_.per_mille(faults_.drop_per_mille)) {
    ++counters_.dropped;
    copies = 0;
  } else if (!inside && random_.per_mille(faults_.double_per_mille)) {
    ++counters_.doubled;
    copies = 2;
  }
  for (int i = 0; i < copies; ++i) {
    std::int64_t wait = kLatencyMs;
    if (!inside && faults_.delay_at_most_ms > 0) {
      wait += static_cast<std::int64_t>(
          random_.below(static_cast<std::uint64_t>(faults_.delay_at_most_ms) + 1));
      if (wait > kLatencyMs) ++counters_.delayed;
    }
    at(wall_ms_ + wait, [this, envelope] { deliver(envelope); });
  }
}

void World::deliver(v1::Envelope envelope) {
  const bool inside = envelope.has_launcher() || envelope.from().starts_with("launcher/");
  if (!inside && (cut_.count(envelope.from()) != 0 || cut_.count(envelope.to()) != 0)) {
    ++counters_.cut;
    return;
  }
  if (on_deliver) on_deliver(envelope);
  ++counters_.delivered;
  mix(envelope.SerializeAsString());
  if (envelope.has_launcher()) {
    return launcher(std::string(actors::id_of_address(envelope.to()))).handle(envelope.launcher());
  }
  if (envelope.to().starts_with("gateway/")) {
    if (on_outside) on_outside(envelope);
    return;
  }
  const auto found = machines_.find(envelope.to());
  if (found == machines_.end()) return;
  actors::Effects effects;
  found->second.machine->handle(envelope, now(), effects);
  if (!effects.ended) found->second.machine->settle(now(), effects);
  perform(envelope.to(), std::move(effects));
}

v1::Reply World::ask_now(v1::Envelope envelope) {
  v1::Reply reply;
  const auto found = machines_.find(envelope.to());
  if (found == machines_.end()) return reply;
  envelope.set_from(kAsker);
  actors::Effects effects;
  found->second.machine->handle(envelope, now(), effects);
  if (!effects.ended) found->second.machine->settle(now(), effects);
  asked_ = &reply;
  perform(envelope.to(), std::move(effects));
  asked_ = nullptr;
  return reply;
}

void World::cut(const std::string& address, bool is_cut) {
  if (is_cut) {
    cut_.insert(address);
  } else {
    cut_.erase(address);
  }
}

Launcher& World::launcher(const std::string& node) {
  std::unique_ptr<Launcher>& launcher = launchers_[node];
  if (!launcher) launcher = std::make_unique<Launcher>(*this, node);
  return *launcher;
}

Program& World::program(const std::string& workload, std::uint32_t index) {
  return programs_[{workload, index}];
}

void World::started(const PodId& id) {
  if (on_start) on_start(id);
}

void World::mix(std::string_view bytes) {  // FNV-1a
  for (const char c : bytes) {
    hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
}

}  // namespace ebb::sim
