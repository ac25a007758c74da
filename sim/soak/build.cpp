#include "sim/soak/build.hpp"

#include "actors/records.hpp"

namespace ebb::sim {

std::string scheduler_name(std::uint32_t i) { return "scheduler " + std::to_string(i); }
std::string agent_name(const std::string& node) { return "agent " + node; }
std::string workspace_of(std::uint32_t scheduler) {
  return "workspace/ws" + std::to_string(scheduler);
}

namespace {
void build_nodes(const Plan& plan, World* world) {
  for (const NodePlan& node : plan.nodes) {
    const std::string root = "q" + std::to_string(node.tree);
    v1::NodeFacts facts;
    facts.set_node(node.name);
    facts.set_node_type(node.type);
    facts.mutable_total()->set_gpu_milli(node.gpus * 1000);
    for (std::int64_t i = 0; i < node.gpus; ++i) {
      facts.add_gpu_ids(node.name + "-gpu" + std::to_string(i));
    }
    facts.set_boot_id("1");
    facts.set_resource_type("ECS");
    facts.set_resource_group("default");
    world->live_in("node/" + node.name, world->process(agent_name(node.name)));
    world->put("node/" + node.name, "NodeFacts", facts);
    v1::NodeLifeRecord life;
    life.set_boot_id("1");
    life.mutable_binding()->set_pool("pool/" + root);
    life.mutable_binding()->set_root_quota(root);
    world->put("node/" + node.name + "#life", "NodeLifeRecord", life);
  }
}

void build_tenant(const Plan& plan, World* world) {
  v1::TenantRecord tenant;
  v1::ResourceGroupSpec* group = tenant.add_groups();
  group->set_id("default");
  group->set_name("default");
  group->set_resource_type("ECS");
  for (const QuotaPlan& quota : plan.quotas) {
    if (!quota.spec.parent_id().empty()) continue;
    v1::TenantRecord::Root* owned = tenant.add_roots();
    *owned->mutable_spec() = quota.spec;
    owned->add_resource_groups("default");
    std::map<std::string, std::uint32_t> counts;
    for (const NodePlan& node : plan.nodes) {
      if (node.tree == quota.tree) ++counts[node.type];
    }
    for (const auto& [type, count] : counts) {
      v1::RootQuota::NodeCount* wanted = owned->add_wanted();
      wanted->set_node_type(type);
      wanted->set_nodes(count);
    }
    v1::PoolRecord pool;
    pool.set_pool_id(quota.spec.quota_id());
    pool.set_root_quota(quota.spec.quota_id());
    pool.set_resource_type("ECS");
    world->live_in(quota.spec.pool(), world->process(scheduler_name(quota.process)));
    world->put(quota.spec.pool(), "PoolRecord", pool);
  }
  for (const NodePlan& node : plan.nodes) {
    v1::TenantRecord::Node* bound = tenant.add_nodes();
    world->read("node/" + node.name, bound->mutable_facts());
    bound->set_root_quota("q" + std::to_string(node.tree));
  }
  world->live_in("tenant", world->process(scheduler_name(0)));
  world->put("tenant", "TenantRecord", tenant);
}

void build_quotas(const Plan& plan, World* world) {
  for (const QuotaPlan& quota : plan.quotas) {
    v1::QuotaRecord record;
    *record.mutable_spec() = quota.spec;
    for (const QuotaPlan& child : plan.quotas) {
      if (child.spec.parent_id() != quota.spec.quota_id()) continue;
      v1::QuotaRecord::Edge* edge = record.add_children();
      edge->set_quota_id(child.spec.quota_id());
      edge->set_name(child.spec.name());
      edge->set_edge_epoch(1);
      *edge->mutable_guarantee() = child.spec.guarantee();
      *edge->mutable_given_total() = child.spec.guarantee();
    }
    if (quota.spec.parent_id().empty()) {
      *record.mutable_holding() = quota.spec.guarantee();
    } else {
      record.set_edge_epoch(1);
      *record.mutable_given_seen() = quota.spec.guarantee();
    }
    const std::string address = "quota/" + quota.spec.quota_id();
    world->live_in(address, world->process(scheduler_name(quota.process)));
    world->put(address, "QuotaRecord", record);
  }
}

void build_workspaces(const Plan& plan, World* world) {
  for (std::uint32_t i = 0; i < plan.schedulers; ++i) {
    v1::WorkspaceRecord workspace;
    workspace.mutable_spec()->set_id("ws" + std::to_string(i));
    workspace.mutable_spec()->set_name("ws" + std::to_string(i));
    const auto member = [&](const char* user, const char* role) {
      v1::Member* one = workspace.add_members();
      one->set_id(user);
      one->set_user(user);
      one->add_roles(role);
    };
    member("dev", "PAI.AlgoDeveloper");
    member("reader", "PAI.LabelManager");
    for (const QuotaPlan& quota : plan.quotas) {
      v1::QuotaBinding* bound = workspace.add_quotas();
      bound->set_quota_id(quota.spec.quota_id());
      bound->set_quota_name(quota.spec.name());
    }
    world->live_in(workspace_of(i), world->process(scheduler_name(i)));
    world->put(workspace_of(i), "WorkspaceRecord", workspace);
  }
}
}  // namespace

void build(const Plan& plan, World* world) {
  build_nodes(plan, world);
  build_tenant(plan, world);
  build_quotas(plan, world);
  build_workspaces(plan, world);
}

std::string address_of(const WorkPlan& work, const std::string& id) {
  switch (work.product) {
    case v1::PRODUCT_SERVICE:
      return "service/" + id;
    case v1::PRODUCT_INSTANCE:
      return "instance/" + id;
    default:
      return "job/" + id;
  }
}

v1::WorkloadSpec spec_of(const WorkPlan& work, const std::string& id) {
  v1::WorkloadSpec spec;
  spec.set_id(id);
  spec.set_name(id);
  spec.set_product(work.product);
  spec.set_quota_id(work.quota);
  spec.set_priority(work.priority);
  spec.set_idle(work.idle);
  if (!work.type.empty()) spec.add_node_types(work.type);
  spec.set_grace_period_ms(work.grace_ms);
  spec.set_pool(work.pool);
  spec.set_user(work.principal);
  const bool alone = work.product == v1::PRODUCT_SERVICE;
  if (alone) spec.set_replicas(work.pods);
  v1::RoleSpec* role = spec.add_roles();
  role->set_role("Worker");
  role->set_pods(alone ? 1 : work.pods);
  role->mutable_each()->set_gpu_milli(work.gpu_milli);
  role->set_restart_policy(work.exit_code == 0 ? "Never" : "OnFailure");
  role->mutable_launch()->add_command("work");
  spec.set_restarts_max(2);
  return spec;
}

}  // namespace ebb::sim
