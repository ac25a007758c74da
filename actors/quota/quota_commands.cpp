// What a quota is told to do from outside: children, scaling, settings, deletion, and what it says
// of itself.
#include <algorithm>

#include "actors/quota/quota_machine.hpp"

namespace ebb::actors {
namespace {
using scheduling::Amount;
using scheduling::Amounts;

std::string text_of_amounts(const Amounts& amounts) {
  std::string text;
  for (const auto& [type, amount] : amounts) {
    if (!text.empty()) text += ", ";
    text += gpus_text(amount.gpu_milli) + " GPUs of " + type;
  }
  return text.empty() ? "nothing" : text;
}

/// The type in which `wanted` is more than `room`; empty if none.
std::string exceeded(const Amounts& wanted, const Amounts& room) {
  for (const auto& [type, amount] : wanted) {
    if (!amount.fits(room[type])) return type;
  }
  return {};
}

Refusal not_found(const std::string& what, const std::string& id) {
  return {"NotFound", what + " \"" + id + "\" does not exist", 404};
}
}  // namespace

void QuotaMachine::command(const v1::QuotaCommand& command, const v1::Envelope& envelope,
                           Instant now, Effects& effects) {
  switch (command.command_case()) {
    case v1::QuotaCommand::kCreateChild:
      create_child(command.create_child(), envelope, effects);
      break;
    case v1::QuotaCommand::kScaleChildren:
      scale_children(command.scale_children(), envelope, effects);
      break;
    case v1::QuotaCommand::kUpdate:
      update(command.update(), envelope, now, effects);
      break;
    case v1::QuotaCommand::kDeleteChild:
      delete_child(command.delete_child(), envelope, effects);
      break;
    case v1::QuotaCommand::kDescribe: {
      v1::Reply reply;
      reply.set_id(spec_.quota_id());
      view().SerializeToString(reply.mutable_body());
      effects.reply(envelope, std::move(reply));
      break;
    }
    case v1::QuotaCommand::kScaleRoot:
      scale_root(command.scale_root(), envelope, effects);
      break;
    case v1::QuotaCommand::kClose:
      close(envelope, effects);
      break;
    case v1::QuotaCommand::COMMAND_NOT_SET:
      effects.refuse(envelope, {"InvalidParameter", "the command is empty", 400});
      break;
  }
}

void QuotaMachine::create_child(v1::QuotaSpec spec, const v1::Envelope& envelope,
                                Effects& effects) {
  const auto known = children_.find(spec.quota_id());
  if (known != children_.end() && known->second.name == spec.name()) {
    v1::Reply again;  // the same request, repeated
    again.set_id(spec.quota_id());
    return effects.reply(envelope, std::move(again));
  }
  if (closing_) {
    return effects.refuse(
        envelope,
        {"QuotaDeleting", "ParentQuotaId: quota \"" + spec_.name() + "\" is being deleted", 409});
  }
  for (const auto& [id, edge] : children_) {
    if (edge.name != spec.name() && id != spec.quota_id()) continue;
    return effects.refuse(envelope, {"QuotaNameExists",
                                     "QuotaName \"" + spec.name() + "\" is taken below quota \"" +
                                         spec_.name() + "\"; choose another name",
                                     409});
  }
  if (const auto policy = scheduling::parse_queue_policy(spec.queue_strategy()); !policy) {
    return effects.refuse(envelope, policy.refusal());
  }
  const Amounts wanted = amounts_of(spec.guarantee());
  Amounts others;
  for (const auto& [id, edge] : children_) others += edge.guarantee;
  if (const std::string type = exceeded(wanted + others, guarantee_); !type.empty()) {
    return effects.refuse(
        envelope,
        {"QuotaExceedsParent",
         "Min: " + text_of_amounts(wanted) + " is more than quota \"" + spec_.name() +
             "\" has left for children: it has " + gpus_text(guarantee_[type].gpu_milli) +
             " GPUs of " + type + ", other children have " + gpus_text(others[type].gpu_milli) +
             ", so at most " + gpus_text(positive(guarantee_[type] - others[type]).gpu_milli) +
             " are allowed",
         400});
  }
  spec.set_parent_id(spec_.quota_id());
  spec.set_pool(spec_.pool());
  spec.set_root_id(spec_.root_id());
  spec.set_resource_type(spec_.resource_type());
  Edge edge;
  edge.id = spec.quota_id();
  edge.name = spec.name();
  edge.guarantee = wanted;
  edge.conversation = Conversation(context_.epoch);
  edge.conversation.touch();
  children_.emplace(edge.id, std::move(edge));
  dirty_record_ = true;
  v1::QuotaRecord child;
  *child.mutable_spec() = spec;
  child.set_edge_epoch(1);
  effects.create("quota/" + spec.quota_id(), "QuotaRecord", child);
  effects.decide("create quota=" + spec.quota_id() + " name=" + spec.name() +
                 " parent=" + spec_.quota_id() + " guarantee=\"" + text_of_amounts(wanted) + "\"");
  v1::Reply reply;
  reply.set_id(spec.quota_id());
  effects.reply(envelope, std::move(reply));
}

void QuotaMachine::scale_children(const v1::ScaleQuotas& scale, const v1::Envelope& envelope,
                                  Effects& effects) {
  std::map<std::string, Amounts> wanted;
  for (const v1::ScaleQuotas::One& one : scale.quotas()) {
    const auto it = children_.find(one.quota_id());
    if (it == children_.end())
      return effects.refuse(envelope, not_found("QuotaId", one.quota_id()));
    const Amounts guarantee = amounts_of(one.guarantee());
    if (const std::string type = exceeded(it->second.guaranteed_below, guarantee); !type.empty()) {
      return effects.refuse(envelope, {"QuotaBelowChildren",
                                       "Min: quota \"" + it->second.name + "\" cannot shrink to " +
                                           gpus_text(guarantee[type].gpu_milli) + " GPUs of " +
                                           type + ": its children are guaranteed " +
                                           gpus_text(it->second.guaranteed_below[type].gpu_milli) +
                                           "; shrink them first",
                                       400});
    }
    wanted[one.quota_id()] = guarantee;
  }
  Amounts sum;
  for (const auto& [id, edge] : children_) {
    const auto it = wanted.find(id);
    sum += it == wanted.end() ? edge.guarantee : it->second;
  }
  if (const std::string type = exceeded(sum, guarantee_); !type.empty()) {
    return effects.refuse(
        envelope, {"QuotaExceedsParent",
                   "Min: the children of quota \"" + spec_.name() + "\" would be guaranteed " +
                       gpus_text(sum[type].gpu_milli) + " GPUs of " + type + ", it has " +
                       gpus_text(guarantee_[type].gpu_milli) +
                       "; shrink another child first or in the same change",
                   400});
  }
  for (const auto& [id, guarantee] : wanted) {
    Edge& edge = children_.at(id);
    effects.decide("scale quota=" + id + " from=\"" + text_of_amounts(edge.guarantee) + "\" to=\"" +
                   text_of_amounts(guarantee) +
                   "\" how=" + (scale.preempt() ? "preempt" : "drain"));
    edge.guarantee = guarantee;
    edge.preempt_above_guarantee = scale.preempt();
  }
  dirty_record_ = true;
  v1::Reply reply;
  reply.set_id(spec_.quota_id());
  effects.reply(envelope, std::move(reply));
}

void QuotaMachine::scale_root(const v1::ScaleQuotas& scale, const v1::Envelope& envelope,
                              Effects& effects) {
  if (!is_root() || scale.quotas_size() != 1) {
    return effects.refuse(envelope, {"InvalidParameter", "QuotaId: not a root quota", 400});
  }
  const Amounts wanted = amounts_of(scale.quotas(0).guarantee());
  Amounts below;
  for (const auto& [id, edge] : children_) below += edge.guarantee;
  if (const std::string type = exceeded(below, wanted); !type.empty()) {
    return effects.refuse(envelope,
                          {"QuotaBelowChildren",
                           "Min: root quota \"" + spec_.name() + "\" cannot shrink to " +
                               gpus_text(wanted[type].gpu_milli) + " GPUs of " + type +
                               ": its children are guaranteed " + gpus_text(below[type].gpu_milli),
                           400});
  }
  guarantee_ = wanted;
  set(spec_.mutable_guarantee(), guarantee_);
  dirty_record_ = true;
  v1::Reply reply;
  reply.set_id(spec_.quota_id());
  effects.reply(envelope, std::move(reply));
}

void QuotaMachine::update(const v1::QuotaSpec& spec, const v1::Envelope& envelope, Instant now,
                          Effects& effects) {
  const auto policy = scheduling::parse_queue_policy(spec.queue_strategy());
  if (!policy) return effects.refuse(envelope, policy.refusal());
  v1::QuotaSpec next = spec;
  next.set_quota_id(spec_.quota_id());
  next.set_parent_id(spec_.parent_id());
  *next.mutable_guarantee() = spec_.guarantee();
  next.set_pool(spec_.pool());
  next.set_root_id(spec_.root_id());
  next.set_resource_type(spec_.resource_type());
  next.set_created_wall_ms(spec_.created_wall_ms());
  if (next.name().empty()) next.set_name(spec_.name());
  spec_ = std::move(next);
  policy_ = *policy;
  // The new order and rules hold for all that waits; what runs is not touched.
  const std::set<ClaimKey> planning = planning_;
  for (const ClaimKey& key : planning) {
    drop_plan(claims_.at(key));
    set_stage(claims_.at(key), Stage::Queued);
  }
  std::vector<ClaimKey> waiting;
  for (const auto& [key, place] : queue_keys_) waiting.push_back(key);
  for (const ClaimKey& key : waiting) requeue(claims_.at(key), now.wall_ms);
  next_aging_mono_ms_ = 0;
  dirty_record_ = true;
  effects.decide("update quota=" + spec_.quota_id());
  v1::Reply reply;
  reply.set_id(spec_.quota_id());
  effects.reply(envelope, std::move(reply));
}

void QuotaMachine::delete_child(const std::string& id, const v1::Envelope& envelope,
                                Effects& effects) {
  const auto it = children_.find(id);
  if (it == children_.end()) return effects.refuse(envelope, not_found("QuotaId", id));
  Edge& edge = it->second;
  if (edge.children != 0 || edge.claims != 0) {
    return effects.refuse(
        envelope, {"QuotaInUse",
                   "QuotaId: quota \"" + edge.name + "\" has " + std::to_string(edge.children) +
                       " children and " + std::to_string(edge.claims) +
                       " workloads; delete or stop them first",
                   409});
  }
  edge.closing = true;
  edge.delete_request = envelope;
  edge.delete_request.clear_payload();
  dirty_record_ = true;
}

/// Asked by the tenant before it deletes a root.
void QuotaMachine::close(const v1::Envelope& envelope, Effects& effects) {
  if (!children_.empty() || !claims_.empty()) {
    return effects.refuse(
        envelope, {"QuotaInUse",
                   "QuotaId: quota \"" + spec_.name() + "\" has " +
                       std::to_string(children_.size()) + " children and " +
                       std::to_string(claims_.size()) + " workloads; delete or stop them first",
                   409});
  }
  v1::Reply reply;
  reply.set_id(spec_.quota_id());
  effects.reply(envelope, std::move(reply));
  end(effects);
}

v1::QuotaView QuotaMachine::view() const {
  v1::QuotaView view;
  *view.mutable_spec() = spec_;
  set(view.mutable_holding(), holding_);
  set(view.mutable_used(), used_);
  Amounts booked, descendants, idle, requested = used_;
  for (const auto& [id, edge] : children_) {
    booked += edge.booked();
    descendants += edge.used;
    view.add_children(id);
  }
  std::map<ClaimKey, std::uint32_t> positions;
  std::vector<QueueKey> order;
  for (const auto& [key, place] : queue_keys_) {
    if (claims_.at(key).waiting()) order.push_back(place.second);
  }
  std::sort(order.begin(), order.end());
  for (const QueueKey& place : order) {
    positions.emplace(place.key, static_cast<std::uint32_t>(positions.size() + 1));
  }
  for (const auto& [key, claim] : claims_) {
    if (claim.holds() && claim.stage != Stage::Charged) idle[claim.held_type] += claim.amount;
    if (claim.waiting() && claim.stage != Stage::Charged) {
      requested[types_for(claim).front()] += claim.amount;
    }
    v1::QueueEntry* entry = view.add_entries();
    *entry->mutable_claim() = claim_of(key);
    entry->set_attempt(claim.attempt);
    const auto position = positions.find(key);
    entry->set_position(position == positions.end() ? 0 : position->second);
    entry->set_admitted(terms_of(claim).admitted());
    entry->set_phase(claim.phase);
    *entry->mutable_need() = claim.need;
    entry->set_since_wall_ms(claim.since_wall_ms);
    if (claim.waiting()) {
      // Behind others of its shape it waits for what the first of them waits for.
      const ClaimState* head = &claim;
      const auto place = queue_keys_.find(key);
      if (place != queue_keys_.end()) {
        head = &claims_.at(queue_.at(place->second.first).begin()->key);
      }
      *entry->mutable_wait() = head->wait.code() == claim.wait.code() ? head->wait : claim.wait;
    }
    entry->set_workspace(claim.workspace);
    entry->set_user(claim.user);
  }
  set(view.mutable_booked(), booked);
  set(view.mutable_descendants(), descendants);
  set(view.mutable_idle_used(), idle);
  set(view.mutable_requested(), requested);
  Amounts elsewhere;  // a root has nobody above it: what it lacks is lost or cordoned
  if (!is_root()) elsewhere = guarantee_ - holding_;
  for (auto& [type, amount] : elsewhere) amount = positive(amount);
  set(view.mutable_ancestors(), elsewhere);
  set(view.mutable_frozen(), frozen_);
  return view;
}

}  // namespace ebb::actors
