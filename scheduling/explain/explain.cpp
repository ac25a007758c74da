#include "scheduling/explain/explain.hpp"

#include <algorithm>

namespace ebb::scheduling {
namespace {

template <class T>
bool is_in(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}
std::string text(std::int64_t number) { return std::to_string(number); }
std::string gpus(std::int64_t milli) {
  std::string out = text(milli / 1'000);
  if (milli % 1'000 == 0) return out;
  std::string rest = text(1'000 + milli % 1'000).substr(1);
  while (rest.back() == '0') rest.pop_back();
  return out + "." + rest;
}

std::string why_not_below(const TakerRules& taker, const HeldBy& holder) {
  if (!taker.below) return "EnableSubQuotaPreemption of quota " + taker.quota + " is off";
  if (!taker.below_products.empty() && !is_in(taker.below_products, holder.product)) {
    return "quota " + taker.quota + " may not take " + holder.product + " from below it";
  }
  if (holder.priority > taker.below_priority_at_most) {
    return "its priority " + text(holder.priority) + " is above " +
           text(taker.below_priority_at_most) + ", the highest that quota " + taker.quota +
           " may take";
  }
  return {};
}

std::string why_not_same_level(const TakerRules& taker, const HeldBy& holder) {
  if (!taker.same_level) return "EnableSelfQuotaPreemption of quota " + taker.quota + " is off";
  if (!taker.preemptors.empty() && !is_in(taker.preemptors, taker.priority)) {
    return "priority " + text(taker.priority) + " is none of the PreemptorPriorities of quota " +
           taker.quota;
  }
  if (!taker.preempted.empty() && !is_in(taker.preempted, holder.priority)) {
    return "its priority " + text(holder.priority) +
           " is none of the PreemptedPriorities of quota " + taker.quota;
  }
  if (holder.priority >= taker.priority) {
    return "its priority " + text(holder.priority) + " is not below " + text(taker.priority);
  }
  if (!taker.same_level_products.empty() && !is_in(taker.same_level_products, holder.product)) {
    return "quota " + taker.quota + " may not take " + holder.product;
  }
  return {};
}
}  // namespace

std::string why_not_taken(const TakerRules& taker, const HeldBy& holder) {
  if (holder.leaving) return "it is leaving already";
  if (holder.idle) return {};
  std::string why;
  switch (holder.relation) {
    case Relation::Below:
      why = why_not_below(taker, holder);
      break;
    case Relation::SameQuota:
    case Relation::Beside:
      why = why_not_same_level(taker, holder);
      break;
    case Relation::Elsewhere:
      why = "quota " + holder.quota + " is neither below quota " + taker.quota + " nor beside it";
      break;
  }
  if (!why.empty()) return why;
  if (holder.ran_ms < holder.min_run_ms) {
    return "it has run for " + text(holder.ran_ms / 1'000) + " of the " +
           text(holder.min_run_ms / 1'000) + " s that its quota promises it";
  }
  return {};
}

bool cheaper(const VictimCost& a, const VictimCost& b) {
  if (a.idle != b.idle) return a.idle;
  if (a.priority != b.priority) return a.priority < b.priority;
  return a.lost_gpu_s < b.lost_gpu_s;
}

std::string why_this_victim(const VictimCost& chosen, const std::vector<VictimCost>& others) {
  const auto words = [](const VictimCost& cost) {
    return std::string(cost.idle ? "idle" : "in-quota") + ", priority " + text(cost.priority) +
           ", " + text(cost.lost_gpu_s) + " GPU-s lost";
  };
  const std::string own = words(chosen);
  if (others.empty()) return own + "; no other could have been taken";
  const VictimCost& best = *std::min_element(others.begin(), others.end(), cheaper);
  return own + "; of " + text(static_cast<std::int64_t>(others.size())) +
         " others that could have been taken the cheapest is " + words(best) +
         (cheaper(best, chosen) ? ", but it lies where it does not make room for the whole need"
                                : "");
}

Forecast forecast_start(std::int64_t now_ms, std::int64_t free_milli, std::int64_t needed_milli,
                        std::int64_t needed_before_milli, std::vector<Release> releases) {
  Forecast out;
  const std::int64_t wanted = needed_milli + needed_before_milli;
  if (needed_before_milli > 0) {
    out.assumptions.push_back("those before it in the queue start first and keep their " +
                              gpus(needed_before_milli) + " GPUs");
  }
  if (free_milli >= wanted) {
    out.at_ms = now_ms;
    return out;
  }
  std::stable_sort(releases.begin(), releases.end(),
                   [](const Release& a, const Release& b) { return a.at_ms < b.at_ms; });
  std::int64_t have = free_milli;
  for (const Release& release : releases) {
    if (release.gpu_milli <= 0) continue;
    have += release.gpu_milli;
    out.assumptions.push_back(release.what + " (" + gpus(release.gpu_milli) + " GPUs)");
    if (have < wanted) continue;
    out.at_ms = std::max(now_ms, release.at_ms);
    out.assumptions.push_back("nothing of higher priority arrives and no node is lost");
    return out;
  }
  out.assumptions.push_back("of " + gpus(wanted) + " GPUs only " +
                            gpus(std::max<std::int64_t>(0, have)) +
                            " are free or come free at a known time: no longest run and no "
                            "schedule is stated for the rest");
  return out;
}

}  // namespace ebb::scheduling
