#include "sim/soak/check.hpp"

#include <algorithm>

namespace ebb::sim {
namespace {
constexpr std::int64_t kWhole = 1000;

std::string text_of(const PodId& id) {
  return id.workload + "/" + std::to_string(id.index) + " attempt " + std::to_string(id.attempt) +
         " pod " + std::to_string(id.pod);
}
const PodBook* pod_of(const NodeBook& node, const PodId& id) {
  const auto table = node.tables.find({id.workload, id.index});
  if (table == node.tables.end()) return nullptr;
  for (const PodBook& pod : table->second.pods) {
    if (pod.attempt == id.attempt && pod.pod == id.pod) return &pod;
  }
  return nullptr;
}
}  // namespace

void Checker::fail(const std::string& invariant, const std::string& text) {
  if (violation_) return;
  violation_ =
      Violation{invariant, text, world_.now().mono_ms - 1'000'000, world_.counters().steps};
  world_.stop();
}

void Checker::check() {
  for (const std::string& text : books_.contradictions) {
    fail(text.substr(0, text.find(':')), text);
  }
  books_.contradictions.clear();
  for (const auto& [id, node] : started_) check_start(id, node);
  started_.clear();
  for (const Eviction& eviction : books_.evictions) check_eviction(eviction);
  books_.evictions.clear();
  if (!books_.touched_quotas.empty()) {
    for (const std::string& id : books_.touched_quotas) {
      const auto it = books_.quotas.find(id);
      if (it != books_.quotas.end() && it->second.present) check_quota(id, it->second);
    }
  }
  for (const std::string& name : books_.touched_nodes) {
    check_node(name, books_.nodes.at(name));
  }
  if (!books_.touched_quotas.empty() || !books_.touched_nodes.empty()) check_trees();
  books_.touched_quotas.clear();
  books_.touched_nodes.clear();
}

void Checker::check_all() {
  for (const auto& [id, quota] : books_.quotas) books_.touched_quotas.insert(id);
  for (const auto& [name, node] : books_.nodes) books_.touched_nodes.insert(name);
  check();
}

void Checker::check_quota(const std::string& id, QuotaBook& quota) {
  const Units booked = quota.booked();
  for (std::size_t t = 0; t < kTypesMost; ++t) {
    const std::int64_t spent = quota.used[t] + booked[t];
    std::int64_t allowed = quota.holding[t];
    if (quota.parent.empty()) {
      // What nodes took with them when they went stays booked until it comes home.
      quota.excess_before[t] =
          std::clamp<std::int64_t>(spent - quota.holding[t], 0, quota.excess_before[t]);
      allowed += quota.excess_before[t];
    }
    if (!holds(spent <= allowed)) {
      fail("I1", "quota " + id + " holds " + std::to_string(quota.holding[t]) + " and has " +
                     std::to_string(quota.used[t]) + " used and " + std::to_string(booked[t]) +
                     " booked");
    }
  }
  Units guaranteed{};
  for (const auto& [child, edge] : quota.children) {
    check_edge(id, child, edge);
    for (std::size_t t = 0; t < kTypesMost; ++t) guaranteed[t] += edge.guarantee[t];
  }
  Units own = quota.guarantee;
  if (!quota.parent.empty()) {
    const auto above = books_.quotas.find(quota.parent);
    if (above != books_.quotas.end() && above->second.children.count(id) != 0) {
      own = above->second.children.at(id).guarantee;
    }
  }
  for (std::size_t t = 0; t < kTypesMost; ++t) {
    if (!holds(guaranteed[t] <= own[t])) {
      fail("I11", "the children of quota " + id + " are guaranteed " +
                      std::to_string(guaranteed[t]) + ", it has " + std::to_string(own[t]));
    }
  }
}

void Checker::check_edge(const std::string& parent_id, const std::string& id,
                         const EdgeBook& edge) {
  const auto child = books_.quotas.find(id);
  if (child == books_.quotas.end() || !child->second.present) return;
  if (child->second.edge_epoch != edge.epoch) return;
  for (std::size_t t = 0; t < kTypesMost; ++t) {
    const bool good = holds(edge.returned_seen[t] <= child->second.returned[t]) &&
                      holds(child->second.returned[t] <= child->second.given_seen[t]) &&
                      holds(child->second.given_seen[t] <= edge.given[t]);
    if (!good) {
      fail("I2", "edge " + parent_id + " - " + id + ": returned_seen " +
                     std::to_string(edge.returned_seen[t]) + ", returned " +
                     std::to_string(child->second.returned[t]) + ", given_seen " +
                     std::to_string(child->second.given_seen[t]) + ", given " +
                     std::to_string(edge.given[t]));
    }
  }
}

void Checker::check_node(const std::string& name, const NodeBook& node) {
  std::map<std::uint32_t, std::int64_t> held;
  for (const auto& [key, table] : node.tables) {
    for (const PodBook& pod : table.pods) {
      if (!pod.holds()) continue;
      for (const auto& [gpu, milli] : pod.gpus) held[gpu] += milli;
      if (table.claim_class != v1::CLAIM_CLASS_IN_QUOTA) continue;
      const auto quota = books_.quotas.find(table.quota);
      const bool charged = quota != books_.quotas.end() && quota->second.charges.count(key) != 0 &&
                           quota->second.charges.at(key).attempt == pod.attempt;
      if (!holds(charged)) {
        fail("I5", "node " + name + " holds an in-quota pod of " + actors::text_of(key) +
                       " attempt " + std::to_string(pod.attempt) + " and quota " + table.quota +
                       " has no charge for it");
      }
    }
  }
  for (const auto& [gpu, milli] : held) {
    if (!holds(milli <= kWhole && static_cast<std::int64_t>(gpu) < node.gpus)) {
      fail("I4", "GPU " + std::to_string(gpu) + " of node " + name + " is held for " +
                     std::to_string(milli) + " of 1000");
    }
  }
  std::map<std::uint32_t, std::int64_t> running;
  for (const auto& [id, process] : world_.launcher(name).processes()) {
    for (const auto& [gpu, milli] : process.gpus) running[gpu] += milli;
    const PodBook* pod = pod_of(node, id);
    if (!holds(pod != nullptr && pod->holds())) {
      fail("I4", "a process of " + text_of(id) + " runs on node " + name +
                     ", whose table holds no slot for it");
    }
  }
  for (const auto& [gpu, milli] : running) {
    if (!holds(milli <= kWhole)) {
      fail("I4", "live processes share GPU " + std::to_string(gpu) + " of node " + name + ": " +
                     std::to_string(milli) + " of 1000");
    }
  }
}

/// I3, I5: sums over trees.
void Checker::check_trees() {
  std::map<std::string, Units> below;  // in-quota pods on nodes, by subtree
  for (const auto& [name, node] : books_.nodes) {
    for (const auto& [key, table] : node.tables) {
      if (table.claim_class != v1::CLAIM_CLASS_IN_QUOTA) continue;
      for (const PodBook& pod : table.pods) {
        if (!pod.holds()) continue;
        std::string id = table.quota;
        for (int depth = 0; depth < 8 && !id.empty(); ++depth) {
          below[id][node.type] += pod.gpu_milli;
          const auto quota = books_.quotas.find(id);
          if (quota == books_.quotas.end()) break;
          id = quota->second.parent;
        }
      }
    }
  }
  std::map<std::string, Units> sums;  // by root: used + free + in flight
  for (const auto& [id, quota] : books_.quotas) {
    if (!quota.present) continue;
    std::string root = id;
    for (int depth = 0; depth < 8; ++depth) {
      const auto above = books_.quotas.find(root);
      if (above == books_.quotas.end() || above->second.parent.empty()) break;
      root = above->second.parent;
    }
    const Units booked = quota.booked();
    for (std::size_t t = 0; t < kTypesMost; ++t) {
      sums[root][t] += quota.used[t] + (quota.holding[t] - quota.used[t] - booked[t]);
      for (const auto& [child, edge] : quota.children) {
        const auto book = books_.quotas.find(child);
        std::int64_t held = 0;
        if (book != books_.quotas.end() && book->second.present) held = book->second.holding[t];
        sums[root][t] += edge.given[t] - edge.returned_seen[t] - held;
      }
    }
    if (quota.parent.empty()) continue;
    const auto above = books_.quotas.find(quota.parent);
    if (above == books_.quotas.end() || above->second.children.count(id) == 0) continue;
    const EdgeBook& edge = above->second.children.at(id);
    for (std::size_t t = 0; t < kTypesMost; ++t) {
      if (!holds(below[id][t] <= edge.given[t] - edge.returned_seen[t])) {
        fail("I5", "in-quota pods of the subtree of " + id + " use " +
                       std::to_string(below[id][t]) + ", quota " + quota.parent + " has booked " +
                       std::to_string(edge.given[t] - edge.returned_seen[t]));
      }
    }
  }
  for (const auto& [root, sum] : sums) {
    const auto quota = books_.quotas.find(root);
    if (quota == books_.quotas.end()) continue;
    for (std::size_t t = 0; t < kTypesMost; ++t) {
      if (!holds(sum[t] == quota->second.holding[t])) {
        fail("I3", "the units of the tree of " + root + " add up to " + std::to_string(sum[t]) +
                       ", it holds " + std::to_string(quota->second.holding[t]));
      }
    }
  }
}

void Checker::process_started(const PodId& id, const std::string& node) {
  auto& attempts = live_[{id.workload, id.index}];
  ++attempts[id.attempt];
  if (!holds(attempts.size() == 1)) {
    fail("I6", "two attempts of " + text_of(id) + " run at once");
  }
  started_.emplace_back(id, node);
  books_.touched_nodes.insert(node);
}

void Checker::process_ended(const PodId& id, const std::string& node) {
  const auto found = live_.find({id.workload, id.index});
  if (found != live_.end()) {
    if (--found->second[id.attempt] <= 0) found->second.erase(id.attempt);
    if (found->second.empty()) live_.erase(found);
  }
  books_.touched_nodes.insert(node);
}

/// I7: no process of an attempt that was not bound whole and saved so.
void Checker::check_start(const PodId& id, const std::string&) {
  const auto workload = books_.workloads.find(id.workload);
  const ClaimBook* claim = nullptr;
  if (workload != books_.workloads.end()) {
    const auto found = workload->second.claims.find(id.index);
    if (found != workload->second.claims.end()) claim = &found->second;
  }
  if (!holds(claim != nullptr && claim->attempt == id.attempt && claim->committed)) {
    fail("I7", "a process of " + text_of(id) + " started and its claim was not committed");
  }
}

bool Checker::is_above(const std::string& quota, const std::string& id) const {
  auto it = books_.quotas.find(id);
  for (int depth = 0; depth < 8 && it != books_.quotas.end(); ++depth) {
    if (it->second.parent == quota) return true;
    it = books_.quotas.find(it->second.parent);
  }
  return false;
}

/// I8: only a rule that is or was switched on, within its filter.
void Checker::check_eviction(const Eviction& eviction) {
  ++evictions_;
  if (on_eviction) on_eviction(eviction);
  if (eviction.claim_class != v1::CLAIM_CLASS_IN_QUOTA) return;
  const auto found = books_.workloads.find(eviction.workload);
  if (found == books_.workloads.end()) return;
  const v1::WorkloadSpec& spec = found->second.spec;
  const auto lowest = *found->second.priorities.begin();
  const auto listed = [&](const google::protobuf::RepeatedField<int>& products) {
    return products.empty() ||
           std::find(products.begin(), products.end(), spec.product()) != products.end();
  };
  bool good = false;
  switch (eviction.preempt.reason()) {
    case v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION:
      for (const auto& [id, quota] : books_.quotas) {
        if (!is_above(id, spec.quota_id())) continue;
        for (const v1::QuotaSpec& rules : quota.specs) {
          good = good || (rules.child_preemption() && listed(rules.child_filter().products()) &&
                          lowest <= rules.child_filter().priority_at_most());
        }
      }
      break;
    case v1::PREEMPT_REASON_SAME_LEVEL_PREEMPTION:
      for (const auto& [id, quota] : books_.quotas) {
        for (const v1::QuotaSpec& rules : quota.specs) {
          if (!rules.self_preemption() || !listed(rules.preempted_products())) continue;
          for (const int priority : rules.preempted_priorities()) {
            good = good || found->second.priorities.count(priority) != 0;
          }
        }
      }
      break;
    case v1::PREEMPT_REASON_QUOTA_SCALED: {
      std::string id = spec.quota_id();
      for (int depth = 0; depth < 8 && !id.empty() && books_.quotas.count(id) != 0; ++depth) {
        good = good || books_.quotas.at(id).scaled_with_preempt;
        id = books_.quotas.at(id).parent;
      }
      break;
    }
    case v1::PREEMPT_REASON_NODE_DRAINED:
      good = drained_;
      break;
    case v1::PREEMPT_REASON_NODE_LOST:
      good = true;
      break;
    default:
      break;
  }
  if (!holds(good)) {
    fail("I8", eviction.workload + "/" + std::to_string(eviction.index) + " of quota " +
                   spec.quota_id() + " is in-quota and was told to go for " +
                   actors::name_of(eviction.preempt.reason()) + ", which no rule allows");
  }
}

}  // namespace ebb::sim
