#include <memory>

#include "cli/apply_file.hpp"
#include "cli/shell.hpp"

namespace ebb::cli {

void add_node_commands(CLI::App& app, Shell& shell) {
  CLI::App* groups = app.add_subcommand("rg", "resource groups");
  groups->require_subcommand(1);
  groups->add_subcommand("list", "all resource groups")->callback([&shell] {
    static const std::vector<Column> kColumns = {{"ID", "/ResourceGroupID"},
                                                 {"NAME", "/Name"},
                                                 {"TYPE", "/ResourceType"},
                                                 {"NODES", "/NodeCount", true}};
    shell.print_list(need(shell.client().get_all("/api/v1/resources", "ResourceGroups")), kColumns,
                     "/ResourceGroupID");
  });

  CLI::App* node = app.add_subcommand("node", "nodes");
  node->require_subcommand(1);
  node->add_subcommand("list", "all nodes")->callback([&shell] {
    static const std::vector<Column> kColumns = {
        {"NAME", "/NodeName"},          {"TYPE", "/NodeType"},
        {"STATUS", "/NodeStatus"},      {"GPU", "/GPU", true},
        {"USED", "/RequestGPU", true},  {"PODS", "/PodNum", true},
        {"MODEL", "/GPUType"},          {"QUOTA", "/BoundQuotas/0/QuotaName"},
        {"GROUP", "/ResourceGroupName"}};
    shell.print_list(need(shell.client().get_all("/api/v1/nodes", "Nodes")), kColumns, "/NodeName");
  });
  auto name = std::make_shared<std::string>();
  auto* pods = node->add_subcommand("pods", "what runs on a node");
  pods->add_option("NODE", *name)->required();
  pods->callback([&shell, name] {
    static const std::vector<Column> kColumns = {{"POD", "/PodName"},
                                                 {"WORKLOAD", "/WorkloadId"},
                                                 {"TYPE", "/WorkloadType"},
                                                 {"PHASE", "/Phase"},
                                                 {"GPUS", "/GPUIndexes"}};
    const Json answer = need(shell.client().get("/api/v1/nodes/" + encoded(*name) + "/Pods"));
    shell.print_list(answer.value("NodePodInfos", Json::array()), kColumns, "/PodName");
  });
  const auto operate = [&](const char* verb, const char* operation, const char* help) {
    auto* command = node->add_subcommand(verb, help);
    command->add_option("NODE", *name)->required();
    auto force = std::make_shared<bool>(false);
    if (std::string(operation) == "Drain") {
      command->add_flag("--force", *force, "also what a rule protects");
    }
    command->callback([&shell, name, operation, force] {
      Json body = {{"Operation", operation}};
      if (*force) body["OperationParameters"]["DrainParameters"]["Force"] = true;
      const Json answer = need(shell.client().post("/api/v1/nodes/" + encoded(*name), body));
      shell.print_done(answer, "/NodeId", std::string(operation) + " " + *name + ": accepted");
    });
  };
  operate("cordon", "Cordon", "place nothing new on a node; its GPUs leave its quotas");
  operate("uncordon", "Uncordon", "use a node again after cordon, drain or fence");
  operate("drain", "Drain",
          "cordon, and ask what runs there to leave; refused where a rule protects some of it");
  operate("fence", "Fence",
          "your word that nothing runs on a silent node any more: its jobs start elsewhere");
}

void add_workspace_commands(CLI::App& app, Shell& shell) {
  CLI::App* workspace = app.add_subcommand("workspace", "people and the quotas they may use");
  workspace->require_subcommand(1);
  auto name = std::make_shared<std::string>();
  auto display = std::make_shared<std::string>();
  auto* one = workspace->add_subcommand("create", "create a workspace");
  one->add_option("NAME", *name, "3 to 23 letters, digits, _")->required();
  one->add_option("--display-name", *display);
  one->callback([&shell, name, display] {
    Json body = {{"WorkspaceName", *name}};
    if (!display->empty()) body["DisplayName"] = *display;
    const Json answer = need(shell.client().post("/api/v1/workspaces", body));
    shell.print_done(answer, "/WorkspaceId",
                     "created workspace " + *name + " (" + answer.value("WorkspaceId", "") + ")");
  });

  workspace->add_subcommand("list", "all workspaces")->callback([&shell] {
    static const std::vector<Column> kColumns = {{"ID", "/WorkspaceId"},
                                                 {"NAME", "/WorkspaceName"},
                                                 {"DISPLAY NAME", "/DisplayName"},
                                                 {"CREATED", "/GmtCreateTime"}};
    shell.print_list(need(shell.client().get_all("/api/v1/workspaces", "Workspaces")), kColumns,
                     "/WorkspaceId");
  });

  auto quota = std::make_shared<std::string>();
  one = workspace->add_subcommand("bind", "let a workspace use a quota");
  one->add_option("WORKSPACE", *name, "id or name")->required();
  one->add_option("QUOTA", *quota, "id or name")->required();
  one->callback([&shell, name, quota] {
    const Json body = {
        {"Resources", Json::array({{{"Spec", {{"resourceId", shell.quota_id(*quota)}}}}})}};
    const Json answer = need(shell.client().post(
        "/api/v1/workspaces/" + encoded(shell.workspace_id(*name)) + "/resources", body));
    shell.print_done(answer, "/Resources/0/Id", "workspace " + *name + " may use quota " + *quota);
  });

  one = workspace->add_subcommand("unbind", "take a quota from a workspace");
  one->add_option("WORKSPACE", *name, "id or name")->required();
  one->add_option("QUOTA", *quota, "id or name")->required();
  one->callback([&shell, name, quota] {
    const Json answer =
        need(shell.client().remove("/api/v1/workspaces/" + encoded(shell.workspace_id(*name)) +
                                   "/resources?ResourceIds=" + encoded(shell.quota_id(*quota))));
    shell.print_done(answer, "/ResourceIds/0",
                     "workspace " + *name + " no longer uses quota " + *quota);
  });

  auto* member = workspace->add_subcommand("member", "members of a workspace");
  member->require_subcommand(1);
  auto user = std::make_shared<std::string>();
  auto roles = std::make_shared<std::vector<std::string>>();
  one = member->add_subcommand("add", "add a member, or set the roles of one");
  one->add_option("WORKSPACE", *name, "id or name")->required();
  one->add_option("USER", *user)->required();
  one->add_option("--role", *roles, "for instance PAI.AlgoDeveloper; may be given several times")
      ->required();
  one->callback([&shell, name, user, roles] {
    const Json body = {{"Members", Json::array({{{"UserId", *user}, {"Roles", *roles}}})}};
    const Json answer = need(shell.client().post(
        "/api/v1/workspaces/" + encoded(shell.workspace_id(*name)) + "/members", body));
    shell.print_done(answer, "/Members/0/MemberId", *user + " is a member of " + *name);
  });
  one = member->add_subcommand("remove", "remove a member");
  one->add_option("WORKSPACE", *name, "id or name")->required();
  one->add_option("USER", *user)->required();
  one->callback([&shell, name, user] {
    const Json answer =
        need(shell.client().remove("/api/v1/workspaces/" + encoded(shell.workspace_id(*name)) +
                                   "/members?MemberIds=" + encoded(*user)));
    shell.print_done(answer, "/RequestId", *user + " is no longer a member of " + *name);
  });
  one = member->add_subcommand("list", "members of a workspace");
  one->add_option("WORKSPACE", *name, "id or name")->required();
  one->callback([&shell, name] {
    static const std::vector<Column> kColumns = {
        {"ID", "/MemberId"}, {"USER", "/UserId"}, {"ROLES", "/Roles"}};
    shell.print_list(
        need(shell.client().get_all(
            "/api/v1/workspaces/" + encoded(shell.workspace_id(*name)) + "/members", "Members")),
        kColumns, "/MemberId");
  });
}

}  // namespace ebb::cli
