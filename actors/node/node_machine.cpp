#include "actors/node/node_machine.hpp"

#include <algorithm>

namespace ebb::actors {
namespace {
constexpr std::int32_t kUnknownExitCode = -1;
}  // namespace

NodeMachine::NodeMachine(const Context& context, const std::vector<v1::Record>& records)
    : context_(context), name_(id_of_address(context.address)), tenant_(context.epoch) {
  for (const v1::Record& record : records) {
    if (record.key() == context.address) {
      facts_.ParseFromString(record.body());
    } else if (record.kind() == "NodeLifeRecord") {
      life_.ParseFromString(record.body());
    } else if (record.kind() == "NodePodRecord") {
      v1::NodePodRecord saved;
      if (!saved.ParseFromString(record.body())) continue;
      ClaimEntry& entry = entry_of(key_of(saved.claim()));
      for (const v1::NodePodRecord::Pod& pod : saved.pods()) {
        Pod& own = entry.pods[{pod.attempt(), pod.order().pod()}];
        own.order = pod.order();
        own.report = pod.report();
        own.leave_by_wall_ms = pod.leave_by_wall_ms();
      }
      saved.clear_pods();
      v1::Header seen;
      *seen.mutable_stamp() = saved.orders_seen();
      entry.workload.receive(seen);
      entry.head = std::move(saved);
      if (entry.holds_slot()) holders_.insert(key_of(entry.head.claim()));
    }
  }
  facts_.set_node(name_);
  v1::Header seen;
  *seen.mutable_stamp() = life_.binding().header().stamp();
  tenant_.receive(seen);
}

void NodeMachine::start(Instant now, Effects& effects) {
  if (life_.boot_id() != facts_.boot_id()) {
    if (!life_.boot_id().empty()) end_all_after_reboot(now);
    life_.set_boot_id(facts_.boot_id());
    life_changed_ = true;
  }
  drop_old_tombstones(effects);
  send_probe(effects);
  for (auto& [key, entry] : claims_) {
    if (entry.pods.empty()) continue;
    for (auto& [id, pod] : entry.pods) {
      if (pod.state() == v1::POD_STATE_LEAVING) resume_leaving(key, id, pod, now, effects);
      if (pod.state() == v1::POD_STATE_GONE) send_forget(key, id, effects);
    }
    entry.workload.touch();
    busy_.insert(key);
  }
  tenant_.touch();
  table_changed_ = true;
  settle(now, effects);
}

void NodeMachine::handle(const v1::Envelope& envelope, Instant now, Effects& effects) {
  if (!envelope.has_node()) {
    effects.alarm("node got a message of another inbox from=" + envelope.from());
    return;
  }
  const v1::NodeInbox& inbox = envelope.node();
  switch (inbox.message_case()) {
    case v1::NodeInbox::kPodOrders:
      on(inbox.pod_orders(), envelope.from(), now, effects);
      break;
    case v1::NodeInbox::kNodeTerms:
      on(inbox.node_terms(), envelope.from(), now, effects);
      break;
    case v1::NodeInbox::kNodeBinding:
      on(inbox.node_binding());
      break;
    case v1::NodeInbox::kProcessReport:
      on(inbox.process_report(), now, effects);
      break;
    case v1::NodeInbox::kGpuHealth:
      on(inbox.gpu_health(), effects);
      break;
    case v1::NodeInbox::kLastContact:
      on(inbox.last_contact());
      break;
    case v1::NodeInbox::MESSAGE_NOT_SET:
      effects.alarm("node got an empty message from=" + envelope.from());
      return;
  }
}

void NodeMachine::wake(Instant now, Effects& effects) { settle(now, effects); }

void NodeMachine::on(const v1::NodeTerms& terms, const std::string& from, Instant now,
                     Effects& effects) {
  const auto pool = pools_.find(from);
  if (pool == pools_.end()) return;
  pool->second.receive(terms.header());
  // Contact is what the owner of the pool answers to what this life of the node has said: a pool
  // that was deposed proves nothing, nor does an answer to what was said before a restart.
  const bool by_owner =
      from == life_.binding().pool() && terms.header().stamp().epoch() == pool->second.seen().epoch;
  const bool to_this = terms.header().seen().epoch() == context_.epoch;
  if (!by_owner || !to_this || terms.beat_seen() <= 0 || terms.beat_seen() > now.mono_ms) return;
  if (contact_mono_ms_ && terms.beat_seen() <= *contact_mono_ms_) return;
  contact_mono_ms_ = terms.beat_seen();
  const bool has_dead_man = std::any_of(holders_.begin(), holders_.end(), [&](const auto& key) {
    return claims_.at(key).head.stop_after_ms() > 0;
  });
  if (has_dead_man) to_launcher(effects).mutable_contact()->set_mono_ms(*contact_mono_ms_);
}

void NodeMachine::on(const v1::LastContact& contact) {
  if (!contact_mono_ms_) contact_mono_ms_ = contact.mono_ms();
}

void NodeMachine::on(const v1::NodeBinding& binding) {
  if (!tenant_.receive(binding.header())) return;
  if (life_.binding().pool() != binding.pool()) table_changed_ = true;
  *life_.mutable_binding() = binding;
  life_changed_ = true;
}

void NodeMachine::on(const v1::GpuHealth& health, Effects& effects) {
  const auto& now_faulty = health.faulty_gpus();
  auto& known = *facts_.mutable_faulty_gpus();
  if (std::equal(known.begin(), known.end(), now_faulty.begin(), now_faulty.end())) return;
  known.CopyFrom(now_faulty);
  std::string list;
  for (const std::uint32_t gpu : known) list += (list.empty() ? "" : ",") + std::to_string(gpu);
  effects.alarm("gpu health changed node=" + name_ + " faulty=" + (list.empty() ? "none" : list));
  tenant_.touch();
  table_changed_ = true;
}

void NodeMachine::end_all_after_reboot(Instant now) {
  for (auto& [key, entry] : claims_) {
    for (auto& [id, pod] : entry.pods) {
      if (!pod.holds_slot()) continue;
      // No process outlives its kernel: the proof of emptiness is the new boot id.
      if (pod.state() == v1::POD_STATE_BOUND) {
        pod.report.set_never_started(true);
        step(entry, pod, PodEvent::Leave);
      } else {
        step(entry, pod, PodEvent::Empty);
      }
      pod.report.set_exit_code(kUnknownExitCode);
      pod.report.set_error("node rebooted");
      pod.report.set_ended_wall_ms(now.wall_ms);
      pod.order.clear_launch();
    }
    if (entry.unsaved) busy_.insert(key);
  }
}

void NodeMachine::drop_old_tombstones(Effects& effects) {
  // Only at a start: the conversation of a forgotten claim begins anew, which needs a new epoch.
  std::vector<std::pair<std::int64_t, ClaimKey>> released;
  for (const auto& [key, entry] : claims_) {
    if (entry.head.released()) released.emplace_back(entry.head.over_wall_ms(), key);
  }
  if (released.size() <= kTombstonesMax) return;
  std::sort(released.begin(), released.end());
  released.resize(released.size() - kTombstonesMax);
  for (const auto& [when, key] : released) {
    effects.erase(record_key(key), "NodePodRecord");
    claims_.erase(key);
  }
}

bool NodeMachine::ClaimEntry::holds_slot() const {
  return std::any_of(pods.begin(), pods.end(),
                     [](const auto& pod) { return pod.second.holds_slot(); });
}

NodeMachine::ClaimEntry& NodeMachine::entry_of(const ClaimKey& key) {
  const auto [it, is_new] = claims_.try_emplace(key);
  if (is_new) it->second.workload = Conversation(context_.epoch);
  return it->second;
}

void NodeMachine::save(const ClaimKey& key, ClaimEntry& entry, Instant now, Effects& effects) {
  if (entry.holds_slot()) {
    holders_.insert(key);
    entry.head.clear_over_wall_ms();
  } else {
    holders_.erase(key);
    if (entry.head.over_wall_ms() == 0) entry.head.set_over_wall_ms(now.wall_ms);
  }
  entry.unsaved = false;
  v1::NodePodRecord record = entry.head;
  *record.mutable_claim() = claim_of(key);
  record.mutable_orders_seen()->set_epoch(entry.workload.seen().epoch);
  record.mutable_orders_seen()->set_version(entry.workload.seen().version);
  for (const auto& [id, pod] : entry.pods) {
    v1::NodePodRecord::Pod* out = record.add_pods();
    *out->mutable_order() = pod.order;
    *out->mutable_report() = pod.report;
    out->set_attempt(id.first);
    out->set_leave_by_wall_ms(pod.leave_by_wall_ms);
  }
  effects.save(record_key(key), "NodePodRecord", record);
}

void NodeMachine::release_if_known(const ClaimKey& key, ClaimEntry& entry, Instant now,
                                   Effects& effects) {
  if (entry.pods.empty() || !entry.workload.settled()) return;
  for (const auto& [id, pod] : entry.pods) {
    if (pod.holds_slot() || pod.order.want() != v1::POD_WANT_GONE) return;
  }
  entry.pods.clear();
  entry.head.set_released(true);
  save(key, entry, now, effects);
}

void NodeMachine::settle(Instant now, Effects& effects) {
  std::int64_t next = stop_what_is_cut_off(now, effects);
  for (auto it = busy_.begin(); it != busy_.end();) {
    const ClaimKey& key = *it;
    ClaimEntry& entry = claims_.at(key);
    kill_overdue(key, entry, now, effects);
    if (entry.untold) {
      entry.untold = false;
      entry.workload.touch();
      table_changed_ = true;
    }
    if (entry.unsaved) save(key, entry, now, effects);
    release_if_known(key, entry, now, effects);
    send_reports(key, entry, now, effects);
    std::int64_t due = entry.workload.due();
    for (const auto& [id, pod] : entry.pods) due = std::min(due, pod.kill_at_mono_ms);
    next = std::min(next, due);
    it = due == kNever ? busy_.erase(it) : std::next(it);
  }
  if (life_changed_) {
    life_changed_ = false;
    effects.save(context_.address + "#life", "NodeLifeRecord", life_);
  }
  next = std::min(next, send_state(now, effects));
  effects.wake_at(std::max(next, now.mono_ms));
}

}  // namespace ebb::actors
