#include <algorithm>

#include "gateway/operations/operation.hpp"
#include "gateway/translation/common_json.hpp"
#include "gateway/translation/quota_json.hpp"

namespace ebb::gateway {
namespace {

QuotaSurroundings surroundings_of(const Desk& desk, const v1::QuotaSpec& spec,
                                  const std::vector<v1::QuotaRecord>& quotas,
                                  const std::vector<v1::WorkspaceRecord>& workspaces) {
  QuotaSurroundings around;
  for (const auto& quota : quotas) {
    if (quota.spec().parent_id() == spec.quota_id()) {
      around.children.emplace_back(quota.spec().quota_id(), quota.spec().name());
    }
  }
  for (const auto& workspace : workspaces) {
    for (const auto& binding : workspace.quotas()) {
      if (binding.quota_id() != spec.quota_id()) continue;
      around.workspaces.emplace_back(workspace.spec().id(), workspace.spec().name());
    }
  }
  (void)desk;
  return around;
}

/// Names are unique in the tenant, so that files and people may refer to quotas by name.
Result<Ok> check_name_free(const Desk& desk, const std::string& name, const std::string& own_id) {
  for (const auto& quota : desk.lists().quotas()) {
    if (quota.spec().name() == name && quota.spec().quota_id() != own_id) {
      return Refusal{
          "DuplicateName",
          "QuotaName " + api::shown(name) + " is taken by quota " + quota.spec().quota_id(), 409};
    }
  }
  return Ok{};
}

Task<Result<Json>> create_quota(Desk& desk, Call call) {
  if (auto room = check_writable(desk); !room) co_return room.refusal();
  const std::string id = new_id("quota");
  v1::Envelope envelope;
  std::string name;
  const std::string parent_id = text_of(call.body, "ParentQuotaId");
  if (parent_id.empty()) {
    auto root = root_quota_of(call.body, id, desk.wall_ms());
    if (!root) co_return root.refusal();
    name = root->spec().name();
    envelope.set_to("tenant");
    *envelope.mutable_tenant()->mutable_command()->mutable_create_root() = std::move(*root);
  } else {
    auto parent = co_await desk.quota(parent_id);
    if (!parent) co_return parent.refusal();
    auto tenant = co_await desk.tenant();
    if (!tenant) co_return tenant.refusal();
    auto child = child_quota_of(call.body, id, parent->spec(),
                                TreeFacts::of(*tenant, parent->spec().root_id()), desk.wall_ms());
    if (!child) co_return child.refusal();
    name = child->name();
    envelope.set_to("quota/" + parent_id);
    *envelope.mutable_quota()->mutable_command()->mutable_create_child() = std::move(*child);
  }
  if (auto free = check_name_free(desk, name, ""); !free) co_return free.refusal();
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"QuotaId", id}};
}

Task<Result<Json>> get_quota(Desk& desk, Call call) {
  auto view = co_await desk.quota(call.path["QuotaId"]);
  if (!view) co_return view.refusal();
  auto tenant = co_await desk.tenant();
  if (!tenant) co_return tenant.refusal();
  auto around =
      surroundings_of(desk, view->spec(), desk.lists().quotas(), desk.lists().workspaces());
  around.tenant = &*tenant;
  co_return quota_json(view->spec(), &*view, around);
}

bool matches(const v1::QuotaSpec& spec, const Json& query, const QuotaSurroundings& around) {
  const auto is_in = [](const std::vector<std::string>& list, const std::string& value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  const std::string name = text_of(query, "QuotaName");
  if (!name.empty() && spec.name().find(name) == std::string::npos) return false;
  if (!is_in(list_of(query, "QuotaIds"), spec.quota_id())) return false;
  if (query.contains("ParentQuotaId") && spec.parent_id() != text_of(query, "ParentQuotaId")) {
    return false;
  }
  const std::string type = text_of(query, "ResourceType");
  if (!type.empty() && spec.resource_type() != type) return false;
  const auto workspaces = list_of(query, "WorkspaceIds");
  const std::string workspace_name = text_of(query, "WorkspaceName");
  if (workspaces.empty() && workspace_name.empty()) return true;
  return std::any_of(around.workspaces.begin(), around.workspaces.end(), [&](const auto& one) {
    return is_in(workspaces, one.first) &&
           (workspace_name.empty() || one.second.find(workspace_name) != std::string::npos);
  });
}

/// Parents before their children, brothers in order of creation: the order of a tree on a screen.
void order_as_tree(const std::vector<v1::QuotaRecord>& all, const std::string& parent,
                   std::vector<v1::QuotaRecord>& out) {
  for (const auto& quota : all) {
    if (quota.spec().parent_id() != parent) continue;
    out.push_back(quota);
    order_as_tree(all, quota.spec().quota_id(), out);
  }
}

Task<Result<Json>> list_quotas(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  auto descending = descending_of(call.query);
  if (!descending) co_return descending.refusal();
  Fields in(call.query);
  const std::string layout = in.one_of("LayoutMode", "List", {"List", "Tree"});
  const std::string sort = in.one_of("SortBy", "GmtCreatedTime", {"GmtCreatedTime", "QuotaName"});
  if (in.refusal()) co_return *in.refusal();
  const auto all = desk.lists().quotas();
  const auto workspaces = desk.lists().workspaces();
  std::vector<v1::QuotaRecord> found;
  if (layout == "Tree") {
    order_as_tree(all, "", found);
  } else {
    found = all;
    if (sort == "QuotaName") {
      std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
        return a.spec().name() < b.spec().name();
      });
    }
    if (*descending) std::reverse(found.begin(), found.end());
  }
  std::erase_if(found, [&](const auto& quota) {
    return !matches(quota.spec(), call.query, surroundings_of(desk, quota.spec(), all, workspaces));
  });
  const auto total = found.size();
  const auto tenant = desk.lists().tenant();
  Json list = Json::array();
  for (const auto& quota : page_part(std::move(found), *page)) {
    auto around = surroundings_of(desk, quota.spec(), all, workspaces);
    around.tenant = &tenant;
    if (!call.query.value("Verbose", false)) {
      list.push_back(quota_json(quota.spec(), nullptr, around));
      continue;
    }
    auto view = co_await desk.quota(quota.spec().quota_id());
    if (!view && view.refusal().http_status == 404) continue;  // deleted meanwhile
    if (!view) co_return view.refusal();
    list.push_back(quota_json(view->spec(), &*view, around));
  }
  co_return Json{{"Quotas", std::move(list)}, {"TotalCount", total}};
}

Task<Result<Json>> update_quota(Desk& desk, Call call) {
  const std::string id = call.path["QuotaId"];
  auto view = co_await desk.quota(id);
  if (!view) co_return view.refusal();
  auto spec = updated_quota_of(call.body, view->spec());
  if (!spec) co_return spec.refusal();
  if (auto free = check_name_free(desk, spec->name(), id); !free) co_return free.refusal();
  v1::Envelope envelope;
  envelope.set_to("quota/" + id);
  *envelope.mutable_quota()->mutable_command()->mutable_update() = std::move(*spec);
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"QuotaId", id}};
}

/// One change of one root.
Task<Result<Json>> scale_root(Desk& desk, v1::QuotaSpec spec, Json body) {
  auto counts = node_counts_of(body.contains("Min") ? body["Min"] : Json::object());
  if (!counts) co_return counts.refusal();
  v1::Envelope envelope;
  envelope.set_to("tenant");
  v1::RootQuota* root = envelope.mutable_tenant()->mutable_command()->mutable_scale_root();
  *root->mutable_spec() = spec;
  for (auto& count : *counts) *root->add_nodes() = std::move(count);
  Fields in(body);
  for (const std::string& group : text_list(in, "ResourceGroupIds"))
    root->add_resource_groups(group);
  if (in.refusal()) co_return *in.refusal();
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"QuotaId", spec.quota_id()}};
}

struct Wish {
  std::string quota_id;
  Json min;
  std::string path;  // of the Min in the request
};

/// One saved change of several children of one parent.
Task<Result<Json>> scale_children(Desk& desk, std::vector<Wish> wishes, bool preempt) {
  v1::Envelope envelope;
  auto* scale = envelope.mutable_quota()->mutable_command()->mutable_scale_children();
  scale->set_preempt(preempt);
  auto tenant = co_await desk.tenant();
  if (!tenant) co_return tenant.refusal();
  std::string parent;
  Json ids = Json::array();
  for (const Wish& wish : wishes) {
    auto view = co_await desk.quota(wish.quota_id);
    if (!view) co_return view.refusal();
    const v1::QuotaSpec& spec = view->spec();
    if (spec.parent_id().empty() || (!parent.empty() && spec.parent_id() != parent)) {
      co_return Refusal{
          "InvalidParameter",
          "quota " + spec.name() + ": only children of one parent can be scaled in one change",
          400};
    }
    parent = spec.parent_id();
    auto guarantee = guarantee_of(wish.min, TreeFacts::of(*tenant, spec.root_id()), wish.path);
    if (!guarantee) co_return guarantee.refusal();
    auto* one = scale->add_quotas();
    one->set_quota_id(wish.quota_id);
    set(one->mutable_guarantee(), *guarantee);
    ids.push_back(wish.quota_id);
  }
  envelope.set_to("quota/" + parent);
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"QuotaIds", std::move(ids)}};
}

Task<Result<Json>> scale_quota(Desk& desk, Call call) {
  const std::string id = call.path["QuotaId"];
  auto view = co_await desk.quota(id);
  if (!view) co_return view.refusal();
  if (view->spec().parent_id().empty())
    co_return co_await scale_root(desk, view->spec(), call.body);
  auto preempt = scale_preempts(call.body);
  if (!preempt) co_return preempt.refusal();
  Fields in(call.body);
  if (!in.has("Min")) in.refuse("Min", "it must be given");
  if (in.has("ResourceGroupIds") && !in.get("ResourceGroupIds").empty()) {
    in.refuse("ResourceGroupIds",
              "a child takes from its parent; only a root names resource groups");
  }
  if (in.refusal()) co_return *in.refusal();
  std::vector<Wish> wishes;
  wishes.push_back({id, in.get("Min"), "Min"});
  auto done = co_await scale_children(desk, std::move(wishes), *preempt);
  if (!done) co_return done.refusal();
  co_return Json{{"QuotaId", id}};
}

/// POST /ebb/v1/quotas/scale {"Quotas": [{"QuotaId", "Min"}], "ScalePolicy"}: several guarantees in
/// one change.
Task<Result<Json>> scale_quotas(Desk& desk, Call call) {
  Fields in(call.body);
  auto preempt = scale_preempts(call.body);
  if (!preempt) co_return preempt.refusal();
  const Json& list = in.get("Quotas");
  if (!list.is_array() || list.empty()) in.refuse("Quotas", "at least one must be given");
  std::vector<Wish> wishes;
  for (std::size_t i = 0; !in.refusal() && i < list.size(); ++i) {
    const std::string path = "Quotas[" + std::to_string(i) + "]";
    Fields one(list[i], path);
    if (!one.has("Min")) one.refuse("Min", "it must be given");
    wishes.push_back({one.required_text("QuotaId", 128), one.get("Min"), path + ".Min"});
    in.join(one);
  }
  if (in.refusal()) co_return *in.refusal();
  co_return co_await scale_children(desk, std::move(wishes), *preempt);
}

Task<Result<Json>> delete_quota(Desk& desk, Call call) {
  const std::string id = call.path["QuotaId"];
  auto view = co_await desk.quota(id);
  if (!view) co_return view.refusal();
  const auto around =
      surroundings_of(desk, view->spec(), desk.lists().quotas(), desk.lists().workspaces());
  if (!around.workspaces.empty()) {
    co_return Refusal{"QuotaInUse",
                      "quota " + view->spec().name() + " is bound to workspace " +
                          around.workspaces.front().second + "; unbind it first",
                      409};
  }
  v1::Envelope envelope;
  if (view->spec().parent_id().empty()) {
    envelope.set_to("tenant");
    envelope.mutable_tenant()->mutable_command()->set_delete_root(id);
  } else {
    envelope.set_to("quota/" + view->spec().parent_id());
    envelope.mutable_quota()->mutable_command()->set_delete_child(id);
  }
  auto reply = co_await desk.ask(std::move(envelope));
  if (!reply) co_return reply.refusal();
  co_return Json{{"QuotaId", id}};
}

/// One queue entry with the quota it waits in.
struct Queued {
  v1::QueueEntry entry;
  v1::QuotaSpec quota;
};

bool matches(const Queued& one, const v1::WorkloadRecord* workload, const Json& query) {
  const auto is_in = [&](const char* name, const std::string& value) {
    const auto list = list_of(query, name);
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  };
  const bool waits = one.entry.phase() == v1::CLAIM_PHASE_WAITING;
  const std::string status = text_of(query, "Status");
  if (!status.empty() && (status == "Enqueued") != waits) return false;
  if (!is_in("WorkloadIds", id_of_address(one.entry.claim().workload()))) return false;
  if (!is_in("WorkspaceIds", one.entry.workspace())) return false;
  if (!is_in("UserIds", one.entry.user())) return false;
  if (!is_in("WorkloadType", product_name(one.entry.need().product()))) return false;
  if (!is_in("WorkloadNames", workload == nullptr ? "" : workload->spec().name())) return false;
  if (!is_in("WorkloadStatuses", workload == nullptr ? "" : workload->status())) return false;
  if (query.contains("Priority") && query["Priority"] != one.entry.need().priority()) return false;
  if (query.contains("Position") && query["Position"] != one.entry.position()) return false;
  if (query.contains("UseOversoldResource") &&
      query["UseOversoldResource"] != (one.entry.admitted() == v1::CLAIM_CLASS_IDLE)) {
    return false;
  }
  return true;
}

Task<Result<Json>> list_quota_workloads(Desk& desk, Call call) {
  auto page = page_of(call.query);
  if (!page) co_return page.refusal();
  Fields in(call.query);
  in.one_of("Status", "", {"Enqueued", "Dequeued"});
  if (in.refusal()) co_return *in.refusal();
  std::vector<std::string> ids = {call.path["QuotaId"]};
  for (const std::string& below : list_of(call.query, "SubQuotaIds")) ids.push_back(below);
  std::vector<Queued> queued;
  for (const std::string& id : ids) {
    auto view = co_await desk.quota(id);
    if (!view) co_return view.refusal();
    for (auto& entry : *view->mutable_entries()) queued.push_back({std::move(entry), view->spec()});
  }
  // What waits first, by position; then what runs, oldest first.
  std::stable_sort(queued.begin(), queued.end(), [](const Queued& a, const Queued& b) {
    const auto place = [](const Queued& one) {
      return one.entry.position() == 0 ? ~std::uint32_t{0} : one.entry.position();
    };
    return place(a) < place(b);
  });
  const auto names = workspace_names(desk.lists());
  Json all = Json::array();
  for (const Queued& one : queued) {
    const auto workload = desk.lists().workload(one.entry.claim().workload());
    if (!matches(one, workload ? &*workload : nullptr, call.query)) continue;
    const auto workspace = names.find(one.entry.workspace());
    all.push_back(queue_entry_json(one.entry, one.quota, workload ? workload->spec().name() : "",
                                   workload ? workload->status() : "",
                                   workspace == names.end() ? "" : workspace->second));
  }
  const auto total = all.size();
  Json shown = Json::array();
  for (auto& one : page_part(all.get<std::vector<Json>>(), *page)) shown.push_back(std::move(one));
  co_return Json{{"Workloads", std::move(shown)}, {"TotalCount", total}};
}

}  // namespace

void add_quota_operations(OperationTable& table) {
  table.add("studio", "CreateQuota", {}, kCreateQuotaFields, create_quota);
  table.add("studio", "GetQuota", {"Verbose"}, {}, get_quota);
  table.add("studio", "ListQuotas",
            {"LayoutMode", "Order", "PageNumber", "PageSize", "ParentQuotaId", "QuotaIds",
             "QuotaName", "ResourceType", "SortBy", "Verbose", "WorkspaceIds", "WorkspaceName"},
            {}, list_quotas);
  table.add("studio", "UpdateQuota", {}, kUpdateQuotaFields, update_quota);
  table.add("studio", "ScaleQuota", {}, kScaleQuotaFields, scale_quota);
  table.add("studio", "DeleteQuota", {}, {}, delete_quota);
  table.add("studio", "ListQuotaWorkloads",
            {"PageNumber", "PageSize", "Position", "Priority", "Status", "SubQuotaIds",
             "UseOversoldResource", "UserIds", "WorkloadIds", "WorkloadNames", "WorkloadStatuses",
             "WorkloadType", "WorkspaceIds"},
            {}, list_quota_workloads);
  api::Operation scale = api::Catalogue::own("ScaleQuotas", "POST", "/ebb/v1/quotas/scale", {});
  scale.body = {"Quotas", "ScalePolicy"};
  scale.request_type = "ScaleQuotasRequest";
  table.add_own(std::move(scale), scale_quotas);
}

}  // namespace ebb::gateway
