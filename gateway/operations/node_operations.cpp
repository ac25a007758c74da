// Resource groups and nodes.
#include <algorithm>
#include <set>

#include "gateway/operations/operation.hpp"
#include "gateway/translation/amount_text.hpp"
#include "gateway/translation/common_json.hpp"
#include "gateway/translation/tree_facts.hpp"

namespace ebb::gateway {
namespace {

Task<Result<Json>> create_group(Desk& desk, Call call) {
  if (auto room = check_writable(desk); !room) co_return room.refusal();
  Fields in(call.body);
  v1::Envelope envelope;
  envelope.set_to("tenant");
  auto* spec = envelope.mutable_tenant()->mutable_command()->mutable_create_group();
  const std::string id = new_id("rg-");
  spec->set_id(id);
  spec->set_name(in.name("Name", 1, 64));
  spec->set_resource_type(in.one_of("ResourceType", "ECS", {"ECS", "Lingjun"}));
  spec->set_description(in.text("Description", 1'024));
  spec->set_created_wall_ms(desk.wall_ms());
  if (in.refusal()) co_return *in.refusal();
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"ResourceGroupID", id}};
}

Json group_json(const v1::ResourceGroupSpec& group) {
  return {{"Name", group.name()},
          {"ResourceType", group.resource_type()},
          {"GmtCreatedTime", time_text(group.created_wall_ms())},
          {"Status", "Ready"}};
}

Task<Result<Json>> get_group(Desk& desk, Call call) {
  auto tenant = co_await desk.tenant();
  if (!tenant) co_return tenant.refusal();
  for (const auto& group : tenant->groups()) {
    if (group.id() != call.path["ResourceGroupID"]) continue;
    Json out = group_json(group);
    out["Description"] = group.description();
    co_return out;
  }
  co_return not_found("resource group", call.path["ResourceGroupID"]);
}

/// A node names its group by id or by name.
bool is_in_group(const v1::TenantRecord::Node& node, const v1::ResourceGroupSpec& group) {
  return node.facts().resource_group() == group.id() ||
         node.facts().resource_group() == group.name();
}

Task<Result<Json>> list_groups(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  const auto ids = list_of(call.query, "ResourceGroupIDs");
  const std::string name = text_of(call.query, "Name");
  const std::string type = text_of(call.query, "ResourceType");
  const auto tenant = desk.lists().tenant();
  std::vector<Json> found;
  for (const auto& group : tenant.groups()) {
    if (!ids.empty() && std::find(ids.begin(), ids.end(), group.id()) == ids.end()) continue;
    if (group.name().find(name) == std::string::npos) continue;
    if (!type.empty() && group.resource_type() != type) continue;
    Json one = group_json(group);
    one["ResourceGroupID"] = group.id();
    one["NodeCount"] = std::count_if(tenant.nodes().begin(), tenant.nodes().end(),
                                     [&](const auto& node) { return is_in_group(node, group); });
    found.push_back(std::move(one));
  }
  const auto total = found.size();
  Json list = Json::array();
  for (auto& one : page_part(std::move(found), *page)) list.push_back(std::move(one));
  co_return Json{{"ResourceGroups", std::move(list)}, {"TotalCount", total}};
}

/// What the pools say of the nodes, by name.
Task<Result<std::map<std::string, v1::PoolView::Node>>> pool_nodes(Desk& desk,
                                                                   v1::TenantRecord tenant) {
  std::map<std::string, v1::PoolView::Node> nodes;
  for (const auto& root : tenant.roots()) {
    auto view = co_await desk.pool(root.spec().pool());
    if (!view && view.refusal().http_status == 404) continue;
    if (!view) co_return view.refusal();
    for (const auto& node : view->nodes()) nodes[node.node()] = node;
  }
  co_return nodes;
}

Json node_json(const v1::TenantRecord::Node& node, const v1::PoolView::Node* seen,
               const std::map<std::string, std::string>& quotas, const v1::TenantRecord& tenant) {
  const v1::NodeFacts& facts = node.facts();
  const auto total = amount_of(facts.total());
  scheduling::Amount used;
  std::set<std::string> workloads;
  std::string status = node.drain() ? "Draining" : node.cordoned() ? "Cordoned" : "Ready";
  if (seen != nullptr) {
    used = amount_of(seen->in_quota()) + amount_of(seen->idle());
    for (const auto& pod : seen->pods()) workloads.insert(pod.claim().workload());
    if (!seen->state().empty()) status = seen->state();
  }
  Json out = {{"NodeName", facts.node()},
              {"NodeType", facts.node_type()},
              {"NodeStatus", status},
              {"GPU", text_of_milli(total.gpu_milli)},
              {"CPU", text_of_milli(total.cpu_milli)},
              {"Memory", text_of_bytes(total.memory_bytes)},
              {"GPUType", facts.gpu_model()},
              {"AcceleratorType", total.gpu_milli > 0 ? "GPU" : "CPU"},
              {"RequestGPU", text_of_milli(used.gpu_milli)},
              {"RequestCPU", text_of_milli(used.cpu_milli)},
              {"RequestMemory", text_of_bytes(used.memory_bytes)},
              {"AllocatableCPU", text_of_milli(total.cpu_milli)},
              {"AllocatableMemory", text_of_bytes(total.memory_bytes)},
              {"IsBound", !node.root_quota().empty()},
              {"BoundQuotas", Json::array()},
              {"PodNum", seen == nullptr ? 0 : seen->pods_size()},
              {"WorkloadNum", workloads.size()},
              {"GmtCreatedTime", time_text(node.joined_wall_ms())}};
  if (facts.gpu_memory_bytes() > 0) out["GPUMemory"] = text_of_bytes(facts.gpu_memory_bytes());
  if (!node.root_quota().empty()) {
    const auto name = quotas.find(node.root_quota());
    out["BoundQuotas"].push_back(
        {{"QuotaId", node.root_quota()}, {"QuotaName", name == quotas.end() ? "" : name->second}});
  }
  for (const auto& group : tenant.groups()) {
    if (!is_in_group(node, group)) continue;
    out["ResourceGroupId"] = group.id();
    out["ResourceGroupName"] = group.name();
  }
  return out;
}

bool matches(const Json& node, const Json& query) {
  const auto is_in = [&](const char* list_name, const char* field) {
    const auto list = list_of(query, list_name);
    return list.empty() || std::find(list.begin(), list.end(), node.value(field, "")) != list.end();
  };
  const auto quota = text_of(query, "QuotaId");
  if (!quota.empty() &&
      (node["BoundQuotas"].empty() || node["BoundQuotas"][0]["QuotaId"] != quota)) {
    return false;
  }
  return is_in("NodeNames", "NodeName") && is_in("NodeTypes", "NodeType") &&
         is_in("NodeStatuses", "NodeStatus") && is_in("GPUType", "GPUType") &&
         is_in("ResourceGroupIds", "ResourceGroupId") &&
         is_in("ResourceGroupName", "ResourceGroupName") &&
         is_in("AcceleratorType", "AcceleratorType");
}

Task<Result<Json>> list_nodes(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto descending = descending_of(call.query, "Order", false);
  if (!descending) co_return descending.refusal();
  const auto tenant = desk.lists().tenant();
  auto seen = co_await pool_nodes(desk, tenant);
  if (!seen) co_return seen.refusal();
  const auto quotas = quota_names(desk.lists());
  std::vector<Json> found;
  for (const auto& node : tenant.nodes()) {
    const auto it = seen->find(node.facts().node());
    Json one = node_json(node, it == seen->end() ? nullptr : &it->second, quotas, tenant);
    if (matches(one, call.query)) found.push_back(std::move(one));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Json& a, const Json& b) { return a["NodeName"] < b["NodeName"]; });
  if (*descending) std::reverse(found.begin(), found.end());
  const auto total = found.size();
  Json list = Json::array();
  for (auto& one : page_part(std::move(found), *page)) list.push_back(std::move(one));
  co_return Json{{"Nodes", std::move(list)}, {"TotalCount", total}};
}

Task<Result<Json>> list_node_pods(Desk& desk, Call call) {
  const std::string id = call.path["NodeId"];
  Fields in(call.query);
  const auto classes = list_of(call.query, "OversoldTypes");
  for (const std::string& one : classes) {
    if (one != "Normal" && one != "Oversold")
      in.refuse("OversoldTypes", "Normal, Oversold are allowed");
  }
  if (in.refusal()) co_return *in.refusal();
  auto tenant = co_await desk.tenant();
  if (!tenant) co_return tenant.refusal();
  const bool known = std::any_of(tenant->nodes().begin(), tenant->nodes().end(),
                                 [&](const auto& node) { return node.facts().node() == id; });
  if (!known) co_return not_found("node", id);
  auto seen = co_await pool_nodes(desk, *tenant);
  if (!seen) co_return seen.refusal();
  Json pods = Json::array();
  const auto node = seen->find(id);
  if (node != seen->end()) {
    for (const v1::SlotPod& pod : node->second.pods()) {
      const bool idle = pod.claim_class() == v1::CLAIM_CLASS_IDLE;
      if (!classes.empty() && std::find(classes.begin(), classes.end(),
                                        idle ? "Oversold" : "Normal") == classes.end()) {
        continue;
      }
      Json gpus = Json::array();
      for (const auto& share : pod.gpus()) gpus.push_back(share.gpu());
      const std::string workload = id_of_address(pod.claim().workload());
      pods.push_back({{"PodName", workload + "-" + std::to_string(pod.claim().index()) + "-" +
                                      std::to_string(pod.pod())},
                      {"WorkloadId", workload},
                      {"WorkloadType", product_name(pod.product())},
                      {"Phase", pod.state() == v1::POD_STATE_RUNNING   ? "Running"
                                : pod.state() == v1::POD_STATE_LEAVING ? "Terminating"
                                                                       : "Pending"},
                      {"GPUIndexes", std::move(gpus)},
                      {"ResourceSpec", amount_json(amount_of(pod.amount()))}});
    }
  }
  co_return Json{{"NodePodInfos", std::move(pods)}};
}

/// "train-7 (job/dlc1) has run for 5 of the 60 s ...": with the name its owner knows.
Task<std::string> with_name(Desk& desk, std::string kept) {
  const std::string address = kept.substr(0, kept.find(' '));
  auto record = co_await desk.workload(address);
  if (!record) co_return kept;
  co_return record->spec().name() + " (" + id_of_address(address) + ")" +
      kept.substr(address.size());
}

/// What stands against an operation, if anything; no part of it has been carried out then.
Task<Result<Ok>> check_operation(Desk& desk, std::string id, std::string operation, bool force) {
  auto tenant = co_await desk.tenant();
  if (!tenant) co_return tenant.refusal();
  auto seen = co_await pool_nodes(desk, *tenant);
  if (!seen) co_return seen.refusal();
  const auto node = seen->find(id);
  if (node == seen->end()) co_return Ok{};  // bound to no quota: nothing runs there
  const std::string& state = node->second.state();
  if (operation == "Fence" && state != "Suspect" && state != "Lost" && state != "Unknown" &&
      state != "Fenced") {
    co_return Refusal{
        "NodeAnswers",
        "NodeId: node \"" + id + "\" is " + state + " and was heard " +
            std::to_string(node->second.silent_ms() / 1'000) +
            " s ago; Fence is the word that nothing runs on a node that is silent (Suspect or "
            "Lost): drain this one instead",
        409};
  }
  if (operation != "Drain" || force || node->second.kept().empty()) co_return Ok{};
  std::string who;
  for (const std::string& kept : node->second.kept()) {
    who += (who.empty() ? "" : "; ") + co_await with_name(desk, kept);
  }
  co_return Refusal{"NodeHoldsProtected",
                    "Operation: node \"" + id + "\" cannot be drained: " + who +
                        ". Nothing was changed; OperationParameters.DrainParameters.Force (ebb "
                        "node drain --force) "
                        "drains them too, Cordon keeps new work away meanwhile",
                    409};
}

Task<Result<Json>> operate_node(Desk& desk, Call call) {
  const std::string id = call.path["NodeId"];
  Fields in(call.body);
  const std::string operation =
      in.one_of("Operation", "", {"Cordon", "Uncordon", "Drain", "Fence"});
  if (operation.empty()) in.refuse("Operation", "Cordon, Uncordon, Drain or Fence must be given");
  bool force = false;
  const Json& given = in.get("OperationParameters");
  if (given.is_object() && given.contains("DrainParameters")) {
    Fields drain(given["DrainParameters"], "OperationParameters.DrainParameters");
    force = drain.flag("Force", false);
    if (drain.refusal()) co_return *drain.refusal();
    if (force && operation != "Drain")
      in.refuse("OperationParameters.DrainParameters.Force", "it goes with Operation Drain only");
  }
  if (in.refusal()) co_return *in.refusal();
  auto possible = co_await check_operation(desk, id, operation, force);
  if (!possible) co_return possible.refusal();
  v1::Envelope envelope;
  envelope.set_to("tenant");
  auto* order = envelope.mutable_tenant()->mutable_command()->mutable_operate_node();
  order->set_node(id);
  order->set_operation(operation);
  order->set_force(force);
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"NodeId", id}};
}

}  // namespace

void add_node_operations(OperationTable& table) {
  table.add("studio", "CreateResourceGroup", {}, {"Description", "Name", "ResourceType"},
            create_group);
  table.add("studio", "GetResourceGroup", {}, {}, get_group);
  table.add("studio", "ListResourceGroups",
            {"Name", "PageNumber", "PageSize", "ResourceGroupIDs", "ResourceType", "ShowAll"}, {},
            list_groups);
  table.add(
      "studio", "ListNodes",
      {"AcceleratorType", "GPUType", "NodeNames", "NodeStatuses", "NodeTypes", "Order",
       "PageNumber", "PageSize", "QuotaId", "ResourceGroupIds", "ResourceGroupName", "Verbose"},
      {}, list_nodes);
  table.add("studio", "ListNodePods", {"OversoldTypes"}, {}, list_node_pods);
  table.add("studio", "OperateNode", {}, {"Operation", "OperationParameters.DrainParameters.Force"},
            operate_node);
}

}  // namespace ebb::gateway
