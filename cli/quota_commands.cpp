#include <memory>

#include "cli/apply_file.hpp"
#include "cli/shell.hpp"

namespace ebb::cli {
namespace {

const std::vector<Column> kQuotaColumns = {
    {"ID", "/QuotaId"},
    {"NAME", "/QuotaName"},
    {"STATUS", "/Status"},
    {"STRATEGY", "/QueueStrategy"},
    {"GUARANTEE", "/QuotaDetails/DesiredMinQuota/GPU", true},
    {"ACTUAL", "/QuotaDetails/ActualMinQuota/GPU", true},
    {"SELF", "/QuotaDetails/SelfAllocatedQuota/GPU", true},
    {"BELOW", "/QuotaDetails/DescendantsAllocatedQuota/GPU", true},
    {"FREE", "/QuotaDetails/AllocatableQuota/GPU", true},
    {"WORKSPACES", "/WorkspaceNames"},
};

/// Adds what the tables show but the answer has nested.
Json with_names(Json quotas) {
  for (Json& quota : quotas) {
    Json names = Json::array();
    for (const Json& workspace : quota.value("Workspaces", Json::array())) {
      names.push_back(workspace.value("WorkspaceName", ""));
    }
    quota["WorkspaceNames"] = names;
  }
  return quotas;
}

void create(Shell& shell, const std::string& file) {
  for (const ApplyItem& item : need(read_items(need(read_input(file)), file, "Quotas"))) {
    const Json answer =
        need(shell.client().post("/api/v1/quotas", resolved_quota(item.body, shell)));
    shell.print_done(answer, "/QuotaId",
                     "created quota " + item.name + " (" + answer.value("QuotaId", "") + ")");
  }
}

void tree(Shell& shell) {
  Json quotas = with_names(need(shell.client().get_all(
      "/api/v1/quotas", "Quotas", {{"LayoutMode", "Tree"}, {"Verbose", "true"}})));
  if (shell.format() != Format::Table) return shell.print_list(quotas, kQuotaColumns, "/QuotaId");
  std::map<std::string, int> depths;
  for (Json& quota : quotas) {
    const auto parent = depths.find(quota.value("ParentQuotaId", ""));
    const int depth = parent == depths.end() ? 0 : parent->second + 1;
    depths[quota.value("QuotaId", "")] = depth;
    quota["QuotaName"] =
        std::string(static_cast<std::size_t>(2 * depth), ' ') + quota.value("QuotaName", "");
  }
  std::vector<Column> columns(kQuotaColumns.begin() + 1, kQuotaColumns.end());
  columns.push_back(kQuotaColumns.front());
  shell.print_list(quotas, columns, "/QuotaId");
}

/// "1.1=56" as {"QuotaId", "Min"}.
Json wish_of(const std::string& text, Shell& shell) {
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw Refused{
        {"InvalidParameter", "`" + text + "`: QUOTA=GPUS is expected, for instance 1.1=56", 400}};
  }
  return {{"QuotaId", shell.quota_id(text.substr(0, equals))},
          {"Min", {{"GPU", text.substr(equals + 1)}}}};
}

void scale(Shell& shell, const std::vector<std::string>& wishes, bool preempt, int nodes,
           const std::string& node_type) {
  const char* policy = preempt ? "Preempt" : "Drain";
  if (nodes >= 0) {  // a root, by whole nodes
    const std::string id = shell.quota_id(wishes.at(0));
    const Json answer = need(shell.client().put(
        "/api/v1/quotas/" + encoded(id) + "/action/scale",
        {{"Min", {{"NodeSpecs", Json::array({{{"Type", node_type}, {"Count", nodes}}})}}},
         {"ScalePolicy", policy}}));
    return shell.print_done(answer, "/QuotaId",
                            "scaling " + wishes.at(0) + " to " + std::to_string(nodes) + " nodes");
  }
  Json list = Json::array();
  for (const std::string& wish : wishes) list.push_back(wish_of(wish, shell));
  const Json answer = need(
      shell.client().post("/ebb/v1/quotas/scale", {{"Quotas", list}, {"ScalePolicy", policy}}));
  std::string sentence = "scaling";
  for (const std::string& wish : wishes) sentence += " " + wish;
  shell.print_done(answer, "/QuotaIds", sentence);
}

}  // namespace

void add_quota_commands(CLI::App& app, Shell& shell) {
  CLI::App* quota = app.add_subcommand("quota", "the tree of guaranteed amounts");
  quota->require_subcommand(1);

  auto* one = quota->add_subcommand("create", "create the quotas of a file");
  auto file = std::make_shared<std::string>();
  one->add_option("-f,--file", *file, "YAML or JSON; - for standard input")->required();
  one->callback([&shell, file] { create(shell, *file); });

  one = quota->add_subcommand("list", "all quotas");
  one->callback([&shell] {
    shell.print_list(
        with_names(need(shell.client().get_all("/api/v1/quotas", "Quotas", {{"Verbose", "true"}}))),
        kQuotaColumns, "/QuotaId");
  });

  one = quota->add_subcommand("tree", "all quotas, children under their parents");
  one->callback([&shell] { tree(shell); });

  auto name = std::make_shared<std::string>();
  one = quota->add_subcommand("get", "one quota");
  one->add_option("QUOTA", *name, "id or name")->required();
  one->callback([&shell, name] {
    shell.print_object(need(shell.client().get("/api/v1/quotas/" + encoded(shell.quota_id(*name)))),
                       "/QuotaId");
  });

  one = quota->add_subcommand("update", "change rules of a quota (all but its guarantee)");
  one->add_option("QUOTA", *name, "id or name")->required();
  one->add_option("-f,--file", *file, "YAML or JSON with the fields to change")->required();
  one->callback([&shell, name, file] {
    const std::string text = need(read_input(*file));
    const YamlRequest reader(*file, "studio", {});
    const Json body = need(reader.read(need(YamlRequest::load(text, *file)), "UpdateQuotaRequest"));
    const Json answer =
        need(shell.client().put("/api/v1/quotas/" + encoded(shell.quota_id(*name)), body));
    shell.print_done(answer, "/QuotaId", "updated quota " + *name);
  });

  one = quota->add_subcommand("scale",
                              "change guarantees; several children of one parent in one change");
  auto wishes = std::make_shared<std::vector<std::string>>();
  auto preempt = std::make_shared<bool>(false);
  auto nodes = std::make_shared<int>(-1);
  auto node_type = std::make_shared<std::string>();
  one->add_option("QUOTA=GPUS", *wishes, "for instance 1.1=56 1.2=72; with --nodes: a root's name")
      ->required();
  one->add_flag("--preempt", *preempt,
                "take what exceeds the new guarantee back at once, instead of waiting");
  auto* count =
      one->add_option("--nodes", *nodes, "nodes of a root quota")->check(CLI::NonNegativeNumber);
  one->add_option("--node-type", *node_type, "node type of --nodes")->needs(count);
  one->callback([&shell, wishes, preempt, nodes, node_type] {
    scale(shell, *wishes, *preempt, *nodes, *node_type);
  });

  one = quota->add_subcommand("delete", "delete a quota that nothing uses");
  one->add_option("QUOTA", *name, "id or name")->required();
  one->callback([&shell, name] {
    const Json answer =
        need(shell.client().remove("/api/v1/quotas/" + encoded(shell.quota_id(*name))));
    shell.print_done(answer, "/QuotaId", "deleted quota " + *name);
  });

  one = quota->add_subcommand("workloads", "what waits and runs in a quota, in order of the queue");
  one->add_option("QUOTA", *name, "id or name")->required();
  one->callback([&shell, name] {
    static const std::vector<Column> kColumns = {{"POS", "/Position", true},
                                                 {"WORKLOAD", "/WorkloadId"},
                                                 {"NAME", "/WorkloadName"},
                                                 {"TYPE", "/WorkloadType"},
                                                 {"STATUS", "/WorkloadStatus"},
                                                 {"PRIO", "/Priority", true},
                                                 {"GPU", "/Resource/GPU", true},
                                                 {"IDLE", "/UseOversoldResource"},
                                                 {"WHY", "/Reason"}};
    shell.print_list(
        need(shell.client().get_all(
            "/api/v1/quotas/" + encoded(shell.quota_id(*name)) + "/workloads", "Workloads")),
        kColumns, "/WorkloadId");
  });
}

}  // namespace ebb::cli
