#include "gateway/translation/quota_json.hpp"

#include <algorithm>
#include <array>

#include "gateway/translation/amount_text.hpp"
#include "gateway/translation/common_json.hpp"

namespace ebb::gateway {

using scheduling::Amount;
using scheduling::Amounts;

const api::Supported kCreateQuotaFields = {
    "AllocateStrategy",
    "Description",
    "Labels",
    "Min.NodeSpecs.Type",
    "Min.NodeSpecs.Count",
    "Min.NodeSpecs.BindingPolicy.IncludeNodes",
    "Min.NodeSpecs.BindingPolicy.ExcludeNodes",
    "Min.GPU",
    "Min.CPU",
    "Min.Memory",
    "Min.GPUType",
    "ParentQuotaId",
    "QueueStrategy",
    "QuotaConfig.EnableSubQuotaPreemption",
    "QuotaConfig.SubQuotaPreemptionConfig",
    "QuotaConfig.EnableSelfQuotaPreemption",
    "QuotaConfig.SelfQuotaPreemptionConfig",
    "QuotaConfig.OversoldUsageConfig.Disabled",
    "QuotaConfig.EnableGPUShare",
    "QuotaConfig.WorkloadTypes",
    "QuotaConfig.MinRunSeconds",
    "QuotaName",
    "ResourceGroupIds",
    "ResourceType",
};
const api::Supported kUpdateQuotaFields = {
    "Description",
    "Labels",
    "QueueStrategy",
    "QuotaName",
    "QuotaConfig.EnableSubQuotaPreemption",
    "QuotaConfig.SubQuotaPreemptionConfig",
    "QuotaConfig.EnableSelfQuotaPreemption",
    "QuotaConfig.SelfQuotaPreemptionConfig",
    "QuotaConfig.OversoldUsageConfig.Disabled",
    "QuotaConfig.EnableGPUShare",
    "QuotaConfig.WorkloadTypes",
    "QuotaConfig.MinRunSeconds",
};
const api::Supported kScaleQuotaFields = {
    "Min.NodeSpecs.Type",
    "Min.NodeSpecs.Count",
    "Min.NodeSpecs.BindingPolicy.IncludeNodes",
    "Min.NodeSpecs.BindingPolicy.ExcludeNodes",
    "Min.GPU",
    "Min.CPU",
    "Min.Memory",
    "Min.GPUType",
    "ResourceGroupIds",
    "ScalePolicy",
};

namespace {

const std::vector<std::string> kQueueStrategies = {
    "PaiStrategyIntelligent", "PaiStrategyBalance", "PaiStrategyRoundRobin",
    "PaiStrategyStrictFIFO",  "Backfill",           "LeastArea"};
constexpr std::int64_t kNodesMax = 1'000'000;

std::vector<std::int32_t> priorities_of(Fields& in, const char* name) {
  std::vector<std::int32_t> priorities;
  const Json& list = in.get(name);
  if (list.is_null()) return priorities;
  for (const Json& one : list) {
    if (!one.is_number_integer() || one.get<std::int64_t>() < 1 || one.get<std::int64_t>() > 9) {
      in.refuse(name, "priorities from 1 to 9 are allowed");
      return priorities;
    }
    priorities.push_back(one.get<std::int32_t>());
  }
  return priorities;
}

template <class List, class Values>
void assign(List* list, const Values& values) {
  list->Clear();
  for (const auto& value : values) list->Add(value);
}

void read_config(const Json& config, Fields& outer, v1::QuotaSpec* spec) {
  Fields in(config, "QuotaConfig");
  spec->set_child_preemption(in.flag("EnableSubQuotaPreemption", spec->child_preemption()));
  if (in.has("SubQuotaPreemptionConfig")) {
    Fields filter(in.get("SubQuotaPreemptionConfig"), "QuotaConfig.SubQuotaPreemptionConfig");
    assign(spec->mutable_child_filter()->mutable_products(),
           products_of(filter, "PreemptedProducts"));
    spec->mutable_child_filter()->set_priority_at_most(
        static_cast<std::int32_t>(filter.whole("PreemptedPriorityUpperBound", 9, 1, 9)));
    in.join(filter);
  }
  if (spec->child_preemption() && spec->child_filter().priority_at_most() == 0) {
    spec->mutable_child_filter()->set_priority_at_most(9);
  }
  if (spec->child_preemption() && spec->child_filter().products_size() == 0) {
    assign(spec->mutable_child_filter()->mutable_products(),
           std::array{v1::PRODUCT_JOB, v1::PRODUCT_SERVICE, v1::PRODUCT_INSTANCE});
  }
  spec->set_self_preemption(in.flag("EnableSelfQuotaPreemption", spec->self_preemption()));
  if (in.has("SelfQuotaPreemptionConfig")) {
    Fields self(in.get("SelfQuotaPreemptionConfig"), "QuotaConfig.SelfQuotaPreemptionConfig");
    assign(spec->mutable_preemptor_priorities(), priorities_of(self, "PreemptorPriorities"));
    assign(spec->mutable_preempted_priorities(), priorities_of(self, "PreemptedPriorities"));
    assign(spec->mutable_preempted_products(), products_of(self, "PreemptedProducts"));
    in.join(self);
  }
  if (in.has("OversoldUsageConfig")) {
    Fields idle(in.get("OversoldUsageConfig"), "QuotaConfig.OversoldUsageConfig");
    spec->set_idle_closed(idle.flag("Disabled", spec->idle_closed()));
    in.join(idle);
  }
  spec->set_gpu_share(in.flag("EnableGPUShare", spec->gpu_share()));
  if (in.has("WorkloadTypes")) {
    assign(spec->mutable_workload_types(), products_of(in, "WorkloadTypes"));
  }
  if (in.has("MinRunSeconds")) {
    spec->set_min_run_ms(in.whole("MinRunSeconds", 0, 0, 30 * 86'400) * 1'000);
  }
  outer.join(in);
}

/// What a create request says of a root and of a child alike.
v1::QuotaSpec spec_of(const Json& body, Fields& in, const std::string& id, std::int64_t wall_ms) {
  v1::QuotaSpec spec;
  spec.set_quota_id(id);
  spec.set_name(in.name("QuotaName", 1, 64));
  spec.set_description(in.text("Description", 1'024));
  spec.set_queue_strategy(in.one_of("QueueStrategy", "PaiStrategyIntelligent", kQueueStrategies));
  in.one_of("AllocateStrategy", "ByNodeSpecs", {"ByNodeSpecs"});
  if (in.has("QuotaConfig")) read_config(in.get("QuotaConfig"), in, &spec);
  spec.set_created_wall_ms(wall_ms);
  spec.set_request_json(body.dump());
  spec.set_scale_policy("drain");
  return spec;
}

/// The only node type that `gpu_type` can mean.
const NodeType* type_for(Fields& in, const TreeFacts& tree, const std::string& gpu_type) {
  const auto types = tree.matching(gpu_type);
  if (types.size() == 1) return types.front();
  in.refuse("GPUType", types.empty() ? "the tree has " + tree.listed()
                                     : "it must name one node type; the tree has " + tree.listed());
  return nullptr;
}

}  // namespace

Result<Amounts> guarantee_of(const Json& min, const TreeFacts& tree, const std::string& path) {
  Fields in(min, path);
  Amounts guarantee;
  const bool by_amount = in.has("GPU") || in.has("CPU") || in.has("Memory") || in.has("GPUType");
  if (in.has("NodeSpecs") == by_amount) {
    in.refuse(by_amount ? "NodeSpecs" : "GPU",
              "give either NodeSpecs {Type, Count} or an amount {GPU, CPU, Memory, GPUType}");
  } else if (by_amount) {
    const Amount asked{in.gpu_milli("GPU"), in.cpu_milli("CPU"), in.memory_bytes("Memory")};
    const NodeType* type = type_for(in, tree, in.text("GPUType", 128));
    if (type != nullptr && !in.refusal()) {
      Amount amount = asked;
      const Amount node = type->smallest;
      if (node.gpu_milli > 0) {
        const auto share = [&](std::int64_t whole) {
          return static_cast<std::int64_t>(static_cast<__int128>(whole) * asked.gpu_milli /
                                           node.gpu_milli);
        };
        if (!in.has("CPU")) amount.cpu_milli = share(node.cpu_milli);
        if (!in.has("Memory")) amount.memory_bytes = share(node.memory_bytes);
      }
      guarantee[type->name] = amount;
    }
  } else {
    const Json& specs = in.get("NodeSpecs");
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Fields one(specs[i], path + ".NodeSpecs[" + std::to_string(i) + "]");
      const std::string type_name = one.required_text("Type", 128);
      const std::int64_t count = one.whole("Count", 0, 0, kNodesMax);
      const NodeType* type = tree.find(type_name);
      if (type == nullptr) {
        one.refuse("Type", "the tree has " + tree.listed());
      } else {
        guarantee[type_name] += type->smallest * count;
      }
      in.join(one);
    }
  }
  if (in.refusal()) return *in.refusal();
  return guarantee;
}

Result<std::vector<v1::RootQuota::NodeCount>> node_counts_of(const Json& min) {
  Fields in(min, "Min");
  std::vector<v1::RootQuota::NodeCount> counts;
  if (in.has("GPU") || in.has("CPU") || in.has("Memory") || in.has("GPUType")) {
    in.refuse(in.has("GPU")      ? "GPU"
              : in.has("CPU")    ? "CPU"
              : in.has("Memory") ? "Memory"
                                 : "GPUType",
              "a root quota is made of whole nodes: give Min.NodeSpecs {Type, Count}");
  }
  const Json& specs = in.get("NodeSpecs");
  if (!specs.is_array() || specs.empty())
    in.refuse("NodeSpecs", "at least one node type must be given");
  for (std::size_t i = 0; !in.refusal() && i < specs.size(); ++i) {
    Fields one(specs[i], "Min.NodeSpecs[" + std::to_string(i) + "]");
    v1::RootQuota::NodeCount& count = counts.emplace_back();
    count.set_node_type(one.required_text("Type", 128));
    if (!one.has("Count")) one.refuse("Count", "it must be given");
    count.set_nodes(static_cast<std::uint32_t>(one.whole("Count", 0, 0, kNodesMax)));
    if (one.has("BindingPolicy")) {
      Fields policy(one.get("BindingPolicy"), one.path_of("BindingPolicy"));
      for (const std::string& node : text_list(policy, "IncludeNodes")) count.add_include(node);
      for (const std::string& node : text_list(policy, "ExcludeNodes")) count.add_exclude(node);
      one.join(policy);
    }
    in.join(one);
  }
  if (in.refusal()) return *in.refusal();
  return counts;
}

Result<v1::RootQuota> root_quota_of(const Json& body, const std::string& id, std::int64_t wall_ms) {
  Fields in(body);
  v1::RootQuota root;
  *root.mutable_spec() = spec_of(body, in, id, wall_ms);
  root.mutable_spec()->set_root_id(id);
  root.mutable_spec()->set_pool("pool/" + id);
  root.mutable_spec()->set_resource_type(in.one_of("ResourceType", "ECS", {"ECS", "Lingjun"}));
  for (const std::string& group : text_list(in, "ResourceGroupIds"))
    root.add_resource_groups(group);
  if (in.refusal()) return *in.refusal();
  auto counts = node_counts_of(in.get("Min"));
  if (!counts) return counts.refusal();
  for (auto& count : *counts) *root.add_nodes() = std::move(count);
  return root;
}

Result<v1::QuotaSpec> child_quota_of(const Json& body, const std::string& id,
                                     const v1::QuotaSpec& parent, const TreeFacts& tree,
                                     std::int64_t wall_ms) {
  Fields in(body);
  v1::QuotaSpec spec = spec_of(body, in, id, wall_ms);
  spec.set_parent_id(parent.quota_id());
  spec.set_root_id(parent.root_id());
  spec.set_pool(parent.pool());
  spec.set_resource_type(parent.resource_type());
  if (in.has("ResourceType") && in.text("ResourceType") != parent.resource_type()) {
    in.refuse("ResourceType", "a child has its parent's: " + parent.resource_type());
  }
  if (in.has("ResourceGroupIds") && !in.get("ResourceGroupIds").empty()) {
    in.refuse("ResourceGroupIds",
              "a child takes from its parent; only a root names resource groups");
  }
  if (!in.has("Min")) in.refuse("Min", "it must be given");
  if (in.refusal()) return *in.refusal();
  auto guarantee = guarantee_of(in.get("Min"), tree, "Min");
  if (!guarantee) return guarantee.refusal();
  set(spec.mutable_guarantee(), *guarantee);
  return spec;
}

Result<v1::QuotaSpec> updated_quota_of(const Json& body, const v1::QuotaSpec& now) {
  Fields in(body);
  v1::QuotaSpec spec = now;
  if (in.has("QuotaName")) spec.set_name(in.name("QuotaName", 1, 64));
  if (in.has("Description")) spec.set_description(in.text("Description", 1'024));
  spec.set_queue_strategy(
      in.one_of("QueueStrategy", spec.queue_strategy().c_str(), kQueueStrategies));
  if (in.has("QuotaConfig")) read_config(in.get("QuotaConfig"), in, &spec);
  if (in.refusal()) return *in.refusal();
  Json request = Json::parse(now.request_json(), nullptr, false);
  if (!request.is_object()) request = Json::object();
  if (in.has("Labels")) request["Labels"] = in.get("Labels");
  spec.set_request_json(request.dump());
  return spec;
}

Result<bool> scale_preempts(const Json& body) {
  Fields in(body);
  const std::string policy = in.one_of("ScalePolicy", "Drain", {"Drain", "Preempt"});
  if (in.refusal()) return *in.refusal();
  return policy == "Preempt";
}

namespace {

Json config_json(const v1::QuotaSpec& spec) {
  const auto names = [](const auto& products) {
    Json list = Json::array();
    for (const int product : products)
      list.push_back(product_name(static_cast<v1::Product>(product)));
    return list;
  };
  const auto numbers = [](const auto& values) {
    Json list = Json::array();
    for (const std::int32_t value : values) list.push_back(value);
    return list;
  };
  Json config = {{"EnableSubQuotaPreemption", spec.child_preemption()},
                 {"EnableSelfQuotaPreemption", spec.self_preemption()},
                 {"OversoldUsageConfig", {{"Disabled", spec.idle_closed()}}},
                 {"EnableGPUShare", spec.gpu_share()}};
  if (spec.child_preemption()) {
    config["SubQuotaPreemptionConfig"] = {
        {"PreemptedProducts", names(spec.child_filter().products())},
        {"PreemptedPriorityUpperBound", spec.child_filter().priority_at_most()}};
  }
  if (spec.self_preemption()) {
    config["SelfQuotaPreemptionConfig"] = {
        {"PreemptorPriorities", numbers(spec.preemptor_priorities())},
        {"PreemptedPriorities", numbers(spec.preempted_priorities())},
        {"PreemptedProducts", names(spec.preempted_products())}};
  }
  if (spec.workload_types_size() > 0) config["WorkloadTypes"] = names(spec.workload_types());
  if (spec.min_run_ms() > 0) config["MinRunSeconds"] = spec.min_run_ms() / 1'000;
  return config;
}

Json details_json(const v1::QuotaView& view) {
  const Amount guarantee = sum_of(view.spec().guarantee());
  const Amount holding = sum_of(view.holding());
  // What lies on nodes that are cordoned or lost is booked, but no node in service backs it.
  const Amount backed = scheduling::positive(holding - sum_of(view.frozen()));
  const Amount used = sum_of(view.used());
  const Amount booked = sum_of(view.booked());
  const Amount descendants = sum_of(view.descendants());
  const Amount ancestors = sum_of(view.ancestors());
  Amount requested = sum_of(view.requested());
  return {{"DesiredMinQuota", amount_json(guarantee)},
          {"ActualMinQuota", amount_json(scheduling::min(guarantee, backed + ancestors))},
          {"SelfAllocatedQuota", amount_json(used)},
          {"DescendantsAllocatedQuota", amount_json(descendants)},
          {"AncestorsAllocatedQuota", amount_json(ancestors)},
          {"AllocatedQuota", amount_json(used + descendants + ancestors)},
          {"AllocatableQuota", amount_json(scheduling::positive(holding - booked - used))},
          {"SelfSubmittedQuota", amount_json(requested)},
          {"RequestedQuota", amount_json(requested + descendants)},
          {"UsedQuota", amount_json(used + sum_of(view.idle_used()))},
          {"SystemReservedQuota", amount_json({})}};
}

Json min_json(const v1::QuotaSpec& spec, const v1::TenantRecord* tenant) {
  Json min = Json::object();
  if (!spec.parent_id().empty()) {
    const Amount sum = sum_of(spec.guarantee());
    min = amount_json(sum, spec.guarantee_size() == 1 ? spec.guarantee(0).node_type() : "");
    return min;
  }
  min["NodeSpecs"] = Json::array();
  if (tenant == nullptr) return min;
  for (const auto& root : tenant->roots()) {
    if (root.spec().quota_id() != spec.quota_id()) continue;
    for (const auto& count : root.wanted()) {
      min["NodeSpecs"].push_back({{"Type", count.node_type()}, {"Count", count.nodes()}});
    }
  }
  return min;
}

}  // namespace

Json quota_json(const v1::QuotaSpec& spec, const v1::QuotaView* view,
                const QuotaSurroundings& around) {
  const Json request = Json::parse(spec.request_json(), nullptr, false);
  Json out = {{"QuotaId", spec.quota_id()},
              {"QuotaName", spec.name()},
              {"ParentQuotaId", spec.parent_id()},
              {"Description", spec.description()},
              {"AllocateStrategy", "ByNodeSpecs"},
              {"QueueStrategy", spec.queue_strategy()},
              {"ResourceType", spec.resource_type()},
              {"GmtCreatedTime", time_text(spec.created_wall_ms())},
              {"Status", "Ready"},
              {"QuotaConfig", config_json(spec)},
              {"Min", min_json(spec, around.tenant)},
              {"SubQuotas", Json::array()},
              {"Workspaces", Json::array()},
              {"Labels", Json::array()}};
  if (request.is_object() && request.contains("Labels") && request["Labels"].is_array()) {
    out["Labels"] = request["Labels"];
  }
  if (request.is_object() && request.contains("ResourceGroupIds")) {
    out["ResourceGroupIds"] = request["ResourceGroupIds"];
  }
  for (const auto& [id, name] : around.children) {
    out["SubQuotas"].push_back({{"QuotaId", id}, {"QuotaName", name}});
  }
  for (const auto& [id, name] : around.workspaces) {
    out["Workspaces"].push_back({{"WorkspaceId", id}, {"WorkspaceName", name}});
  }
  if (view != nullptr) {
    out["QuotaDetails"] = details_json(*view);
    if (!(sum_of(view->spec().guarantee())
              .fits(sum_of(view->holding()) + sum_of(view->ancestors())))) {
      out["Status"] = "Scaling";  // asked for more (or less) than it holds now
    }
  }
  return out;
}

Json queue_entry_json(const v1::QueueEntry& entry, const v1::QuotaSpec& quota,
                      const std::string& workload_name, const std::string& workload_status,
                      const std::string& workspace_name) {
  Amount total;
  for (const v1::PodShape& shape : entry.need().shapes()) {
    total += amount_of(shape.each()) * shape.pods();
  }
  const bool waits = entry.phase() == v1::CLAIM_PHASE_WAITING;
  Json out = {{"WorkloadId", id_of_address(entry.claim().workload())},
              {"WorkloadName", workload_name},
              {"Name", workload_name},
              {"WorkloadStatus", workload_status},
              {"WorkloadType", product_name(entry.need().product())},
              {"WorkspaceId", entry.workspace()},
              {"WorkspaceName", workspace_name},
              {"UserId", entry.user()},
              {"QuotaId", quota.quota_id()},
              {"QueueStrategy", quota.queue_strategy()},
              {"Priority", entry.need().priority()},
              {"Resource", amount_json(total)},
              {"GmtEnqueuedTime", time_text(entry.since_wall_ms())},
              {"Position", entry.position()},
              {"Status", waits ? "Enqueued" : "Dequeued"},
              {"UseOversoldResource", entry.admitted() == v1::CLAIM_CLASS_IDLE}};
  if (waits && entry.has_wait()) {
    static constexpr std::array kCodes = {
        "", "quotaNotCovered", "capacityShort", "noPlacement", "behindOthers", "waitsForVictims"};
    const auto code = static_cast<std::size_t>(entry.wait().code());
    out["CodeType"] = "Scheduling";
    out["Code"] = code < kCodes.size() ? kCodes[code] : "";
    out["Reason"] = entry.wait().sentence();
  }
  return out;
}

}  // namespace ebb::gateway
