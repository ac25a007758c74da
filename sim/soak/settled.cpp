#include "sim/soak/settled.hpp"

#include <algorithm>

#include "sim/soak/network.hpp"

namespace ebb::sim {
namespace {
constexpr int kRepeatsMost = 2;
constexpr std::int64_t kMomentMs = 100;
constexpr int kMoments = 20;

const v1::Header* header_of(const v1::Envelope& envelope, std::string* about) {
  const auto claim = [&](const v1::Claim& claim) {
    *about = actors::text_of(actors::key_of(claim));
  };
  switch (envelope.payload_case()) {
    case v1::Envelope::kQuota:
      switch (envelope.quota().message_case()) {
        case v1::QuotaInbox::kParentTerms:
          return &envelope.quota().parent_terms().header();
        case v1::QuotaInbox::kChildClaims:
          return &envelope.quota().child_claims().header();
        case v1::QuotaInbox::kClaimDemand:
          claim(envelope.quota().claim_demand().claim());
          return &envelope.quota().claim_demand().header();
        case v1::QuotaInbox::kClaimAnswer:
          claim(envelope.quota().claim_answer().claim());
          return &envelope.quota().claim_answer().header();
        case v1::QuotaInbox::kPoolCapacity:
          return &envelope.quota().pool_capacity().header();
        default:
          return nullptr;
      }
    case v1::Envelope::kPool:
      switch (envelope.pool().message_case()) {
        case v1::PoolInbox::kPlaceClaim:
          claim(envelope.pool().place_claim().claim());
          return &envelope.pool().place_claim().header();
        case v1::PoolInbox::kQuotaFacts:
          return &envelope.pool().quota_facts().header();
        case v1::PoolInbox::kClaimUse:
          claim(envelope.pool().claim_use().claim());
          return &envelope.pool().claim_use().header();
        case v1::PoolInbox::kNodeState:
          return &envelope.pool().node_state().header();
        case v1::PoolInbox::kPoolTerms:
          return &envelope.pool().pool_terms().header();
        default:
          return nullptr;
      }
    case v1::Envelope::kWorkload:
      switch (envelope.workload().message_case()) {
        case v1::WorkloadInbox::kClaimTerms:
          claim(envelope.workload().claim_terms().claim());
          return &envelope.workload().claim_terms().header();
        case v1::WorkloadInbox::kClaimPlacement:
          claim(envelope.workload().claim_placement().claim());
          return &envelope.workload().claim_placement().header();
        case v1::WorkloadInbox::kPodReports:
          claim(envelope.workload().pod_reports().claim());
          return &envelope.workload().pod_reports().header();
        default:
          return nullptr;
      }
    case v1::Envelope::kNode:
      switch (envelope.node().message_case()) {
        case v1::NodeInbox::kPodOrders:
          claim(envelope.node().pod_orders().claim());
          return &envelope.node().pod_orders().header();
        case v1::NodeInbox::kNodeTerms:
          return &envelope.node().node_terms().header();
        case v1::NodeInbox::kNodeBinding:
          return &envelope.node().node_binding().header();
        default:
          return nullptr;
      }
    default:
      return nullptr;
  }
}

std::string why_text(const std::string& workload, std::uint32_t index) {
  return workload + "/" + std::to_string(index);
}
}  // namespace

Settled::Settled(const Plan& plan, World& world, Books& books, Checker& checker)
    : plan_(plan), world_(world), books_(books), checker_(checker) {}

void Settled::begin_watch() {
  watching_ = true;
  saves_at_watch_ = world_.counters().saves;
}

void Settled::delivered(const v1::Envelope& envelope) {
  if (!watching_) return;
  std::string about;
  const v1::Header* header = header_of(envelope, &about);
  if (header == nullptr || !header->wants_echo()) return;
  const std::string name = envelope.from() + " -> " + envelope.to() + ": " +
                           name_of_kind(envelope) + " " + about + " stamp " +
                           std::to_string(header->stamp().epoch()) + "." +
                           std::to_string(header->stamp().version());
  ++repeated_[name];
}

void Settled::end_watch() {
  watching_ = false;
  for (const auto& [name, times] : repeated_) {
    if (times > kRepeatsMost) {
      return checker_.fail("I13",
                           name + " was said " + std::to_string(times) + " times without an echo");
    }
  }
}

std::string Settled::unequal_edge() const {
  for (const auto& [id, quota] : books_.quotas) {
    if (!quota.present) continue;
    for (const auto& [child, edge] : quota.children) {
      const auto book = books_.quotas.find(child);
      if (book == books_.quotas.end() || !book->second.present) continue;
      if (book->second.given_seen != edge.given || book->second.returned != edge.returned_seen) {
        return id + " - " + child;
      }
    }
  }
  return {};
}

bool Settled::check_edges(const std::function<bool(std::int64_t ms)>& play) {
  for (int i = 0; i < kMoments; ++i) {
    if (unequal_edge().empty()) return true;
    if (!play(kMomentMs)) return false;
  }
  checker_.fail("I13", "the two sides of the edge " + unequal_edge() + " have different totals");
  return false;
}

std::int64_t Settled::amount_of(const WorkloadBook& work) const {
  std::int64_t pods = 0, each = 0;
  for (const v1::RoleSpec& role : work.spec.roles()) {
    pods += role.pods();
    each = role.each().gpu_milli();
  }
  return pods * each;
}

/// Whether all pods of one claim go onto usable nodes, at once, beside what lies there.
bool Settled::fits(const WorkloadBook& work, bool over_idle) const {
  const v1::RoleSpec& role = work.spec.roles(0);
  const std::int64_t each = role.each().gpu_milli();
  const std::string type = work.spec.node_types_size() > 0 ? work.spec.node_types(0) : "";
  const std::string root = work.spec.pool().substr(5);
  std::map<std::string, std::int64_t> pods_by_type;
  for (const NodePlan& plan : plan_.nodes) {
    if (!type.empty() && plan.type != type) continue;
    if ("q" + std::to_string(plan.tree) != root) continue;
    const NodeBook& node = books_.nodes.at(plan.name);
    if (node.cordoned) continue;
    std::vector<std::int64_t> free(static_cast<std::size_t>(node.gpus), 1000);
    for (const auto& [key, table] : node.tables) {
      if (over_idle && table.claim_class == v1::CLAIM_CLASS_IDLE) continue;
      for (const PodBook& pod : table.pods) {
        if (!pod.holds()) continue;
        for (const auto& [gpu, milli] : pod.gpus) free[gpu] -= milli;
      }
    }
    std::int64_t fit = 0;
    if (each >= 1000) {
      fit = std::count(free.begin(), free.end(), 1000) / (each / 1000);
    } else {
      for (const std::int64_t left : free) fit += left / each;
    }
    pods_by_type[plan.type] += fit;
  }
  return std::any_of(pods_by_type.begin(), pods_by_type.end(),
                     [&](const auto& it) { return it.second >= role.pods(); });
}

void Settled::check_waiting() {
  std::map<std::string, std::vector<Waiting>> waiting;  // by quota
  for (const auto& [address, work] : books_.workloads) {
    for (const auto& [index, claim] : work.claims) {
      const bool moves =
          claim.phase == v1::CLAIM_PHASE_BINDING || claim.phase == v1::CLAIM_PHASE_LEAVING;
      if (moves) return;  // the last ones are still on their way: capacity is promised to them
      if (claim.phase != v1::CLAIM_PHASE_WAITING) continue;
      waiting[work.spec.quota_id()].push_back({address, index, &work, claim.since_wall_ms});
    }
  }
  const bool closed = std::any_of(books_.quotas.begin(), books_.quotas.end(), [](const auto& it) {
    return !it.second.specs.empty() && it.second.specs.back().idle_closed();
  });
  for (const auto& [id, claims] : waiting) {
    const auto found = books_.quotas.find(id);
    if (found == books_.quotas.end() || !found->second.present) continue;
    const QuotaBook& quota = found->second;
    const Units booked = quota.booked();
    for (const Waiting& claim : claims) {
      const v1::WorkloadSpec& spec = claim.book->spec;
      const bool takes_idle =
          spec.idle() == v1::IDLE_MODE_ACCEPTED || spec.idle() == v1::IDLE_MODE_ONLY;
      if (takes_idle && !closed && fits(*claim.book, false)) {
        return checker_.fail("I13", why_text(claim.workload, claim.index) +
                                        " waits although idle resources would take it");
      }
      if (spec.idle() == v1::IDLE_MODE_ONLY) continue;
      // Only what would stand first under every policy.
      const bool first = std::all_of(claims.begin(), claims.end(), [&](const Waiting& other) {
        return other.book->spec.idle() == v1::IDLE_MODE_ONLY ||
               (other.book->spec.priority() <= spec.priority() && other.since >= claim.since);
      });
      if (!first) continue;
      const std::int64_t amount = amount_of(*claim.book);
      for (std::size_t t = 0; t < plan_.types.size(); ++t) {
        if (spec.node_types_size() > 0 && spec.node_types(0) != plan_.types[t]) continue;
        if (spec.node_types_size() == 0 && t > 0) continue;
        std::int64_t owed = 0;
        for (const auto& [child, edge] : quota.children) {
          owed += std::max<std::int64_t>(
              0, edge.guarantee[t] - (edge.given[t] - edge.returned_seen[t]));
        }
        const std::int64_t free = quota.holding[t] - quota.used[t] - booked[t] - owed;
        if (free < amount || !fits(*claim.book, true)) continue;
        return checker_.fail("I13", why_text(claim.workload, claim.index) + " waits for " +
                                        std::to_string(amount) + ", its quota " + id + " has " +
                                        std::to_string(free) + " free and nodes have room");
      }
    }
  }
}

std::string Settled::not_ended() const {
  for (const auto& [address, work] : books_.workloads) {
    for (const auto& [index, claim] : work.claims) {
      if (claim.phase != v1::CLAIM_PHASE_GONE) {
        return address + "/" + std::to_string(index) + " (" + work.status + ", phase " +
               std::to_string(claim.phase) + ")";
      }
    }
  }
  return "by their status alone";
}

void Settled::check_home() {
  for (const auto& [id, quota] : books_.quotas) {
    if (!quota.present) continue;
    if (!quota.charges.empty()) {
      return checker_.fail(
          "I13", "quota " + id + " still charges " + actors::text_of(quota.charges.begin()->first));
    }
    for (const auto& [child, edge] : quota.children) {
      for (std::size_t t = 0; t < kTypesMost; ++t) {
        const std::int64_t booked = edge.given[t] - edge.returned_seen[t];
        if (booked == edge.guarantee[t]) continue;
        return checker_.fail("I13", "quota " + child + " holds " + std::to_string(booked) +
                                        " after the drain, its guarantee is " +
                                        std::to_string(edge.guarantee[t]));
      }
    }
  }
  for (const auto& [name, node] : books_.nodes) {
    for (const auto& [key, table] : node.tables) {
      for (const PodBook& pod : table.pods) {
        if (pod.holds()) {
          return checker_.fail("I13",
                               "node " + name + " still holds a pod of " + actors::text_of(key));
        }
      }
    }
    if (!world_.launcher(name).processes().empty()) {
      return checker_.fail("I13", "a process still runs on node " + name);
    }
  }
}

void Settled::evicted(const Eviction& eviction) {
  const actors::ClaimKey by = actors::key_of(eviction.preempt.by());
  if (by.workload.empty()) return;
  claimants_.emplace_back(world_.now().wall_ms, by);
}

std::uint64_t Settled::needless() const {
  std::uint64_t count = 0;
  for (const auto& [when, key] : claimants_) {
    const auto work = books_.workloads.find(key.workload);
    if (work == books_.workloads.end() || work->second.stopping) continue;
    const auto claim = work->second.claims.find(key.index);
    if (claim == work->second.claims.end()) continue;
    if (claim->second.attempt == 1 && claim->second.phase == v1::CLAIM_PHASE_WAITING) ++count;
  }
  return count;
}

}  // namespace ebb::sim
