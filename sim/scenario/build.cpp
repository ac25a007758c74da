#include "sim/scenario/build.hpp"

#include <algorithm>

#include "actors/records.hpp"
#include "actors/workload/claim_runner.hpp"

namespace ebb::sim {
namespace {
using scheduling::Amounts;

class Builder {
 public:
  Builder(const Scenario& scenario, std::int64_t zero, World* world)
      : scenario_(scenario), zero_(zero), world_(*world) {
    for (const NodeCase& node : scenario.nodes) {
      free_[node.name].assign(static_cast<std::size_t>(node.gpus), 1000);
      types_[node.name] = node.type;
    }
  }

  Result<std::vector<std::string>> build() {
    for (const StartCase& start : scenario_.start) {
      if (auto done = place(start); !done) return done.refusal();
    }
    write_tenant();
    write_quotas();
    for (auto& [key, record] : pods_) world_.put(key, "NodePodRecord", record);
    for (auto& [address, record] : running_) world_.put(address, "WorkloadRecord", record);
    return waiting_;
  }

 private:
  Result<Ok> place(const StartCase& start) {
    std::vector<std::pair<std::string, std::int64_t>> left = start.on;
    for (const std::string& id : start.members) {
      const WorkloadCase& workload = *scenario_.workload(id);
      std::vector<std::string> nodes;
      auto trial = left;
      for (auto& [node, milli] : trial) {
        while (nodes.size() < workload.pods && milli >= workload.gpu_milli) {
          milli -= workload.gpu_milli;
          nodes.push_back(node);
        }
      }
      if (nodes.size() < workload.pods || nodes.empty()) {
        waiting_.push_back(id);
        continue;
      }
      left = trial;
      if (auto done = run(workload, start, nodes); !done) return done.refusal();
    }
    return Ok{};
  }

  Result<v1::PodPlace> take(const std::string& node, std::int64_t milli) {
    v1::PodPlace place;
    place.set_node(node);
    place.mutable_amount()->set_gpu_milli(milli);
    for (std::size_t i = 0; i < free_[node].size() && milli > 0; ++i) {
      const std::int64_t part = std::min<std::int64_t>(milli, 1000);
      if (free_[node][i] < part) continue;
      free_[node][i] -= part;
      milli -= part;
      v1::GpuShare* share = place.add_gpus();
      share->set_gpu(static_cast<std::uint32_t>(i));
      share->set_gpu_milli(part);
    }
    if (milli > 0) {
      return Refusal{"InvalidScenario", "start.on: node \"" + node + "\" has not so many GPUs"};
    }
    return place;
  }

  Result<Ok> run(const WorkloadCase& workload, const StartCase& start,
                 const std::vector<std::string>& nodes) {
    const std::int64_t since = zero_ + start.since_ms;
    v1::WorkloadRecord& record = running_[workload.address];
    *record.mutable_spec() = spec_of(workload, scenario_, since);
    record.set_status("Running");
    record.set_submitted_wall_ms(since);
    record.set_running_wall_ms(since);
    const bool alone = workload.product == v1::PRODUCT_SERVICE;
    const std::string& type = types_[nodes.front()];
    if (alone) record.set_replicas_wanted(workload.pods);
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      auto place = take(nodes[i], workload.gpu_milli);
      if (!place) return place.refusal();
      const std::uint32_t index = alone ? i : 0;
      place->set_pod(alone ? 0 : i);
      if (alone || i == 0) {
        v1::ClaimRecord* claim = record.add_claims();
        claim->set_index(index);
        claim->set_attempt(1);
        claim->set_phase(v1::CLAIM_PHASE_RUNNING);
        claim->set_claim_class(start.idle ? v1::CLAIM_CLASS_IDLE : v1::CLAIM_CLASS_IN_QUOTA);
        claim->set_node_type(type);
        claim->set_since_wall_ms(since);
        claim->set_started_wall_ms(since);
        claim->set_committed(true);
        claim->set_wanted(true);
        claim->set_stop_after_ms(actors::stop_after_of(record.spec(), world_.tuning));
        if (!start.idle) charge(workload, index, type, alone ? 1 : workload.pods);
      }
      add_pod(workload, start, index, *place, since,
              record.mutable_claims(record.claims_size() - 1)->add_pods());
    }
    record.set_next_index(static_cast<std::uint32_t>(record.claims_size()));
    return Ok{};
  }

  void add_pod(const WorkloadCase& workload, const StartCase& start, std::uint32_t index,
               const v1::PodPlace& place, std::int64_t since, v1::PodRecord* pod) {
    const std::int64_t pid = ++pid_;
    pod->set_pod(place.pod());
    pod->set_role("Worker");
    *pod->mutable_place() = place;
    pod->set_want(v1::POD_WANT_RUN);
    v1::PodReport* report = pod->mutable_report();
    report->set_pod(place.pod());
    report->set_state(v1::POD_STATE_RUNNING);
    report->set_started_wall_ms(since);
    report->set_pid(pid);
    v1::Claim claim;
    claim.set_workload(workload.address);
    claim.set_index(index);
    v1::NodePodRecord& table =
        pods_["node/" + place.node() + "#" + actors::text_of(actors::key_of(claim))];
    *table.mutable_claim() = claim;
    table.set_attempt(1);
    table.mutable_orders_seen()->set_epoch(1);
    table.mutable_orders_seen()->set_version(1);
    table.set_quota(workload.quota);
    table.set_claim_class(start.idle ? v1::CLAIM_CLASS_IDLE : v1::CLAIM_CLASS_IN_QUOTA);
    table.set_priority(workload.priority);
    table.set_product(workload.product);
    table.set_stop_after_ms(
        actors::stop_after_of(spec_of(workload, scenario_, since), world_.tuning));
    v1::NodePodRecord::Pod* kept = table.add_pods();
    kept->set_attempt(1);
    *kept->mutable_report() = *report;
    v1::PodOrder* order = kept->mutable_order();
    order->set_pod(place.pod());
    order->set_want(v1::POD_WANT_RUN);
    *order->mutable_gpus() = place.gpus();
    *order->mutable_amount() = place.amount();
    order->set_grace_period_ms(workload.grace_ms);
    world_.launcher(place.node())
        .adopt({workload.address, index, 1, place.pod()}, since, workload.gpu_milli, pid);
  }

  void charge(const WorkloadCase& workload, std::uint32_t index, const std::string& type,
              std::uint32_t pods) {
    v1::ChargeRecord record;
    record.mutable_claim()->set_workload(workload.address);
    record.mutable_claim()->set_index(index);
    record.set_attempt(1);
    record.set_node_type(type);
    record.mutable_amount()->set_gpu_milli(workload.gpu_milli * pods);
    record.set_priority(workload.priority);
    record.set_product(workload.product);
    world_.put("quota/" + workload.quota + "#" + actors::text_of(actors::key_of(record.claim())),
               "ChargeRecord", record);
    used_[workload.quota][type].gpu_milli += workload.gpu_milli * pods;
  }

  void write_tenant() {
    v1::TenantRecord tenant;
    v1::ResourceGroupSpec* group = tenant.add_groups();
    group->set_id("default");
    group->set_name("default");
    group->set_resource_type("ECS");
    const QuotaCase& root = scenario_.quotas.front();
    v1::TenantRecord::Root* owned = tenant.add_roots();
    *owned->mutable_spec() = root.spec;
    owned->add_resource_groups("default");
    std::map<std::string, std::uint32_t> counts;
    for (const NodeCase& node : scenario_.nodes) {
      v1::NodeFacts facts;
      facts.set_node(node.name);
      facts.set_node_type(node.type);
      facts.mutable_total()->set_gpu_milli(node.gpus * 1000);
      for (int i = 0; i < node.gpus; ++i) {
        facts.add_gpu_ids(node.name + "-gpu" + std::to_string(i));
      }
      facts.set_boot_id("1");
      facts.set_resource_type("ECS");
      facts.set_resource_group("default");
      world_.put("node/" + node.name, "NodeFacts", facts);
      v1::NodeLifeRecord life;
      life.set_boot_id("1");
      life.mutable_binding()->set_pool("pool/" + root.spec.quota_id());
      life.mutable_binding()->set_root_quota(root.spec.quota_id());
      world_.put("node/" + node.name + "#life", "NodeLifeRecord", life);
      v1::TenantRecord::Node* bound = tenant.add_nodes();
      *bound->mutable_facts() = facts;
      bound->set_root_quota(root.spec.quota_id());
      bound->set_cordoned(node.cordoned);
      ++counts[node.type];
    }
    for (const auto& [type, count] : counts) {
      v1::RootQuota::NodeCount* wanted = owned->add_wanted();
      wanted->set_node_type(type);
      wanted->set_nodes(count);
    }
    world_.put("tenant", "TenantRecord", tenant);
    v1::PoolRecord pool;
    pool.set_pool_id(root.spec.quota_id());
    pool.set_root_quota(root.spec.quota_id());
    pool.set_resource_type("ECS");
    world_.put("pool/" + root.spec.quota_id(), "PoolRecord", pool);
  }

  /// Charged in the subtree.
  Amounts use_of(const std::string& quota) {
    Amounts sum = used_[quota];
    for (const QuotaCase& child : scenario_.quotas) {
      if (child.spec.parent_id() == quota) sum += use_of(child.spec.quota_id());
    }
    return sum;
  }

  void write_quotas() {
    Amounts live;
    for (const NodeCase& node : scenario_.nodes) {
      if (!node.cordoned) live[node.type].gpu_milli += node.gpus * 1000;
    }
    write_quota(scenario_.quotas.front(), live);
  }

  /// A child holds what its subtree uses, and its guarantee as far as its parent has it.
  void write_quota(const QuotaCase& quota, const Amounts& holding) {
    v1::QuotaRecord record;
    const std::string& id = quota.spec.quota_id();
    *record.mutable_spec() = quota.spec;
    Amounts spare = holding - use_of(id);
    std::vector<std::pair<const QuotaCase*, Amounts>> children;
    for (const QuotaCase& child : scenario_.quotas) {
      if (child.spec.parent_id() != id) continue;
      Amounts given = use_of(child.spec.quota_id());
      for (const auto& [type, guarantee] : child.guarantee) {
        const std::int64_t lacks = guarantee.gpu_milli - given[type].gpu_milli;
        const std::int64_t more = std::max<std::int64_t>(0, std::min(lacks, spare[type].gpu_milli));
        given[type].gpu_milli += more;
        spare[type].gpu_milli -= more;
      }
      v1::QuotaRecord::Edge* edge = record.add_children();
      edge->set_quota_id(child.spec.quota_id());
      edge->set_name(child.spec.name());
      edge->set_edge_epoch(1);
      *edge->mutable_guarantee() = child.spec.guarantee();
      actors::set(edge->mutable_given_total(), given);
      children.emplace_back(&child, given);
    }
    if (quota.spec.parent_id().empty()) {
      actors::set(record.mutable_holding(), holding);
    } else {
      record.set_edge_epoch(1);
      actors::set(record.mutable_given_seen(), holding);
    }
    world_.put("quota/" + id, "QuotaRecord", record);
    for (const auto& [child, given] : children) write_quota(*child, given);
  }

  const Scenario& scenario_;
  const std::int64_t zero_;
  World& world_;
  std::int64_t pid_ = 0;
  std::map<std::string, std::vector<std::int64_t>> free_;
  std::map<std::string, std::string> types_;
  std::map<std::string, Amounts> used_;
  std::map<std::string, v1::NodePodRecord> pods_;
  std::map<std::string, v1::WorkloadRecord> running_;
  std::vector<std::string> waiting_;
};
}  // namespace

v1::WorkloadSpec spec_of(const WorkloadCase& workload, const Scenario& scenario,
                         std::int64_t created_wall_ms) {
  v1::WorkloadSpec spec;
  spec.set_id(workload.id);
  spec.set_name(workload.id);
  spec.set_product(workload.product);
  spec.set_quota_id(workload.quota);
  spec.set_priority(workload.priority);
  spec.set_idle(workload.idle);
  for (const std::string& type : workload.types) spec.add_node_types(type);
  spec.set_grace_period_ms(workload.grace_ms);
  spec.set_created_wall_ms(created_wall_ms);
  spec.set_pool("pool/" + scenario.quotas.front().spec.root_id());
  spec.set_fault_tolerance(true);
  const bool alone = workload.product == v1::PRODUCT_SERVICE;
  if (alone) spec.set_replicas(workload.pods);
  v1::RoleSpec* role = spec.add_roles();
  role->set_role("Worker");
  role->set_pods(alone ? 1 : workload.pods);
  role->mutable_each()->set_gpu_milli(workload.gpu_milli);
  role->set_restart_policy("Never");
  role->mutable_launch()->add_command("work");
  return spec;
}

Result<std::vector<std::string>> build_start(const Scenario& scenario, std::int64_t zero_wall_ms,
                                             World* world) {
  return Builder(scenario, zero_wall_ms, world).build();
}

}  // namespace ebb::sim
