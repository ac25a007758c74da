#include "sim/soak/books.hpp"

#include <algorithm>

#include "actors/machine.hpp"

namespace ebb::sim {
namespace {
bool is_final(const std::string& status) {
  return status == "Succeeded" || status == "Failed" || status == "Stopped";
}
/// "node/n1#job/w1/0" -> job/w1, 0. Records that are erased carry nothing but their key.
actors::ClaimKey claim_of_key(const std::string& key) {
  const std::string part = key.substr(key.find('#') + 1);
  const std::size_t slash = part.rfind('/');
  return {part.substr(0, slash), static_cast<std::uint32_t>(std::stoul(part.substr(slash + 1)))};
}
}  // namespace

Units QuotaBook::booked() const {
  Units sum{};
  for (const auto& [id, edge] : children) {
    for (std::size_t t = 0; t < kTypesMost; ++t) sum[t] += edge.given[t] - edge.returned_seen[t];
  }
  return sum;
}

bool PodBook::holds() const {
  return state != v1::POD_STATE_GONE && state != v1::POD_STATE_REFUSED &&
         state != v1::POD_STATE_UNSPECIFIED;
}

std::size_t Books::type_index(const std::string& type) const {
  for (std::size_t t = 0; t < types_.size(); ++t) {
    if (types_[t] == type) return t;
  }
  return 0;
}

Units Books::units_of(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list) const {
  Units units{};
  for (const v1::TypedAmount& one : list) {
    units[type_index(one.node_type())] += one.amount().gpu_milli();
  }
  return units;
}

void Books::saved(const v1::Record& record) {
  const std::string address(actors::address_of_key(record.key()));
  const std::string id(actors::id_of_address(address));
  const std::string& kind = record.kind();
  if (kind == "QuotaRecord") return take_quota(id, record);
  if (kind == "ChargeRecord") return take_charge(id, record);
  if (kind == "NodePodRecord") return take_table(id, record);
  if (kind == "WorkloadRecord") return take_workload(record);
  if (kind == "TenantRecord") return take_tenant(record);
  if (kind != "TokenRecord" || record.erased()) return;
  v1::TokenRecord token;
  token.ParseFromString(record.body());
  const auto [it, is_new] = tokens.try_emplace(token.token(), token.id());
  ++comparisons;
  if (!is_new && it->second != token.id()) {
    contradictions.push_back("I10: client token " + token.token() + " made " + it->second +
                             " and then " + token.id());
  }
}

void Books::take_quota(const std::string& id, const v1::Record& record) {
  QuotaBook& book = quotas[id];
  touched_quotas.insert(id);
  if (record.erased()) {
    if (!book.parent.empty()) touched_quotas.insert(book.parent);
    book = {};
    return;
  }
  v1::QuotaRecord saved;
  saved.ParseFromString(record.body());
  const bool was_present = book.present;
  book.present = true;
  book.parent = saved.spec().parent_id();
  if (!book.parent.empty()) touched_quotas.insert(book.parent);
  book.guarantee = units_of(saved.spec().guarantee());
  const bool same_rules =
      !book.specs.empty() &&
      book.specs.back().child_preemption() == saved.spec().child_preemption() &&
      book.specs.back().self_preemption() == saved.spec().self_preemption() &&
      book.specs.back().child_filter().SerializeAsString() ==
          saved.spec().child_filter().SerializeAsString() &&
      book.specs.back().preempted_priorities_size() == saved.spec().preempted_priorities_size() &&
      book.specs.back().preemptor_priorities_size() == saved.spec().preemptor_priorities_size();
  if (!same_rules) book.specs.push_back(saved.spec());
  const Units given_seen = units_of(saved.given_seen());
  const Units returned = units_of(saved.returned_total());
  const bool is_root = book.parent.empty();
  const Units holding_before = book.holding;
  for (std::size_t t = 0; t < kTypesMost; ++t) {
    comparisons += 2;
    if (was_present && saved.edge_epoch() == book.edge_epoch &&
        (given_seen[t] < book.given_seen[t] || returned[t] < book.returned[t])) {
      contradictions.push_back(
          "I2: totals of quota " + id + " fell: given_seen " + std::to_string(book.given_seen[t]) +
          " -> " + std::to_string(given_seen[t]) + ", returned " +
          std::to_string(book.returned[t]) + " -> " + std::to_string(returned[t]));
    }
    book.holding[t] = given_seen[t] - returned[t];
  }
  if (is_root) book.holding = units_of(saved.holding());
  book.given_seen = given_seen;
  book.returned = returned;
  book.edge_epoch = saved.edge_epoch();
  std::map<std::string, EdgeBook> children;
  for (const v1::QuotaRecord::Edge& kept : saved.children()) {
    EdgeBook& edge = children[kept.quota_id()];
    edge.epoch = kept.edge_epoch();
    edge.guarantee = units_of(kept.guarantee());
    edge.given = units_of(kept.given_total());
    edge.returned_seen = units_of(kept.returned_seen());
    edge.preempt = kept.preempt();
    touched_quotas.insert(kept.quota_id());
    if (edge.preempt) quotas[kept.quota_id()].scaled_with_preempt = true;
    const auto before = book.children.find(kept.quota_id());
    if (before == book.children.end() || before->second.epoch != edge.epoch) continue;
    for (std::size_t t = 0; t < kTypesMost; ++t) {
      comparisons += 2;
      if (edge.given[t] < before->second.given[t] ||
          edge.returned_seen[t] < before->second.returned_seen[t]) {
        contradictions.push_back("I2: totals of the edge " + id + " - " + kept.quota_id() +
                                 " fell at the parent");
      }
    }
  }
  book.children = std::move(children);
  if (!is_root) return;
  for (std::size_t t = 0; t < kTypesMost; ++t) {
    // Nodes were lost or cordoned: what was in use before is now more than there is.
    if (book.holding[t] < holding_before[t]) {
      book.excess_before[t] += holding_before[t] - book.holding[t];
    }
  }
}

void Books::take_charge(const std::string& quota, const v1::Record& record) {
  QuotaBook& book = quotas[quota];
  touched_quotas.insert(quota);
  const actors::ClaimKey key = claim_of_key(record.key());
  const auto found = book.charges.find(key);
  if (found != book.charges.end()) {
    book.used[found->second.type] -= found->second.gpu_milli;
    book.charges.erase(found);
  }
  // Its pods have to be looked at again: a charge that ends before they do breaks R6.
  for (auto& [name, node] : nodes) {
    if (node.tables.count(key) != 0) touched_nodes.insert(name);
  }
  if (record.erased()) return;
  v1::ChargeRecord saved;
  saved.ParseFromString(record.body());
  ChargeBook charge{saved.attempt(), type_index(saved.node_type()), saved.amount().gpu_milli()};
  book.used[charge.type] += charge.gpu_milli;
  book.charges.emplace(key, charge);
}

void Books::take_table(const std::string& node, const v1::Record& record) {
  NodeBook& book = nodes[node];
  touched_nodes.insert(node);
  const actors::ClaimKey key = claim_of_key(record.key());
  if (record.erased()) {
    book.tables.erase(key);
    return;
  }
  v1::NodePodRecord saved;
  saved.ParseFromString(record.body());
  TableBook& table = book.tables[key];
  table.claim_class = saved.claim_class();
  table.quota = saved.quota();
  table.pods.clear();
  for (const v1::NodePodRecord::Pod& kept : saved.pods()) {
    PodBook pod;
    pod.attempt = kept.attempt();
    pod.pod = kept.order().pod();
    pod.state = kept.report().state();
    for (const v1::GpuShare& share : kept.order().gpus()) {
      pod.gpus.emplace_back(share.gpu(), share.gpu_milli());
      pod.gpu_milli += share.gpu_milli();
    }
    table.pods.push_back(std::move(pod));
  }
}

void Books::take_workload(const v1::Record& record) {
  if (record.erased()) {
    workloads.erase(record.key());
    return;
  }
  v1::WorkloadRecord saved;
  saved.ParseFromString(record.body());
  WorkloadBook& book = workloads[record.key()];
  ++comparisons;
  if (saved.spec().product() == v1::PRODUCT_JOB && is_final(book.status) &&
      saved.status() != book.status) {
    contradictions.push_back("I10: " + record.key() + " was " + book.status + " and is " +
                             saved.status() + " again");
  }
  book.spec = saved.spec();
  book.status = saved.status();
  book.stopping = saved.stopping();
  book.priorities.insert(saved.spec().priority());
  std::map<std::uint32_t, ClaimBook> claims;
  for (const v1::ClaimRecord& kept : saved.claims()) {
    ClaimBook& claim = claims[kept.index()];
    claim.attempt = kept.attempt();
    claim.phase = kept.phase();
    claim.claim_class = kept.claim_class();
    claim.committed = kept.committed();
    claim.wanted = kept.wanted();
    claim.since_wall_ms = kept.since_wall_ms();
    claim.pods = static_cast<std::size_t>(kept.pods_size());
    claim.leaving_for = kept.leaving_for().reason();
    const auto before = book.claims.find(kept.index());
    const bool is_known = before != book.claims.end();
    ++comparisons;
    if (is_known && claim.attempt < before->second.attempt) {
      contradictions.push_back("I6: " + record.key() + " went back to an older attempt");
    }
    if (claim.leaving_for == v1::PREEMPT_REASON_UNSPECIFIED) continue;
    if (is_known && before->second.attempt == claim.attempt &&
        before->second.leaving_for == claim.leaving_for) {
      continue;
    }
    evictions.push_back(
        {record.key(), kept.index(), kept.attempt(), kept.leaving_for(), kept.claim_class()});
  }
  book.claims = std::move(claims);
}

void Books::take_tenant(const v1::Record& record) {
  v1::TenantRecord saved;
  saved.ParseFromString(record.body());
  for (const v1::TenantRecord::Node& node : saved.nodes()) {
    NodeBook& book = nodes[node.facts().node()];
    book.type = type_index(node.facts().node_type());
    book.gpus = node.facts().total().gpu_milli() / 1000;
    book.cordoned = node.cordoned() || node.drain();
  }
}

}  // namespace ebb::sim
