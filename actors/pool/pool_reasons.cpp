// Why a victim was chosen, for log, events and explain.
#include <algorithm>

#include "actors/pool/pool_machine.hpp"
#include "scheduling/explain/explain.hpp"

namespace ebb::actors {
namespace {

scheduling::VictimCost cost_of(const scheduling::HolderFacts& facts, std::int64_t gpu_milli,
                               std::int64_t now_wall_ms) {
  const std::int64_t since = std::max(facts.started_ms, facts.checkpoint_ms);
  const std::int64_t lost_ms = std::max<std::int64_t>(0, now_wall_ms - since);
  return {.idle = facts.holder_class == scheduling::HolderClass::Idle,
          .priority = facts.priority,
          .lost_gpu_s = gpu_milli * (lost_ms / 1'000) / 1'000};
}

bool may_take(const scheduling::PlaceRequest& request, const scheduling::HolderFacts& facts) {
  if (facts.leaving || facts.spared) return false;
  if (facts.holder_class == scheduling::HolderClass::Idle) return request.take_idle;
  return std::any_of(request.rules.begin(), request.rules.end(),
                     [&](const scheduling::TakeRule& rule) {
                       return facts.quota < rule.quotas.size() && rule.quotas[facts.quota] &&
                              rule.products[static_cast<int>(facts.product)] &&
                              facts.priority <= rule.priority_at_most &&
                              ((rule.priorities >> facts.priority) & 1u) != 0;
                     });
}
}  // namespace

/// Before the victims are marked as leaving: what each costs, and what the others would have.
std::map<scheduling::HolderId, std::string> PoolMachine::why_these(
    const ClaimEntry& claim, const std::vector<scheduling::HolderId>& victims, Instant now) const {
  std::map<scheduling::HolderId, std::string> why;
  if (victims.empty()) return why;
  const auto gpus_of = [](const Holder& holder) {
    std::int64_t sum = 0;
    for (const auto& [pod, held] : holder.pods) sum += held.place.amount.gpu_milli;
    return sum;
  };
  const scheduling::PlaceRequest request = request_of(claim, now);
  std::vector<scheduling::VictimCost> others;
  for (const auto& [key, holder] : holders_) {
    if (std::find(victims.begin(), victims.end(), holder.id) != victims.end()) continue;
    if (!may_take(request, holder.facts)) continue;
    others.push_back(cost_of(holder.facts, gpus_of(holder), now.wall_ms));
  }
  for (const scheduling::HolderId id : victims) {
    const Holder& holder = holders_.at(holder_keys_.at(id));
    why[id] =
        scheduling::why_this_victim(cost_of(holder.facts, gpus_of(holder), now.wall_ms), others);
  }
  return why;
}

}  // namespace ebb::actors
