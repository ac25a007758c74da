#include "cli/shell.hpp"

#include <cstdio>

namespace ebb::cli {

Client& Shell::client() {
  if (!client_) client_.emplace(need(find_access(server, data_dir)));
  return *client_;
}

Format Shell::format() const {
  if (format_name == "json") return Format::Json;
  if (format_name == "yaml") return Format::Yaml;
  return format_name == "quiet" ? Format::Quiet : Format::Table;
}

void Shell::print(const std::string& text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Shell::print_list(const Json& items, const std::vector<Column>& columns,
                       const char* id) const {
  print(list_text(items, columns, id, format()));
}

void Shell::print_object(const Json& object, const char* id) const {
  print(object_text(object, id, format()));
}

void Shell::print_done(const Json& answer, const char* id, const std::string& sentence) const {
  if (format() == Format::Table) {
    print(api::plain_text(sentence) + "\n");
  } else {
    print_object(answer, id);
  }
}

std::string Shell::find(const Json& items, const char* id, const char* name,
                        const std::string& wanted, const char* what) {
  std::string found;
  for (const Json& item : items) {
    if (item.value(id, "") == wanted) return wanted;
    if (item.value(name, "") != wanted) continue;
    if (!found.empty()) {
      throw Refused{
          {"Ambiguous",
           std::string("several ") + what + "s have the name `" + wanted + "`; use the id", 409}};
    }
    found = item.value(id, "");
  }
  if (found.empty()) {
    throw Refused{{"NotFound",
                   std::string("there is no ") + what + " `" + api::plain_text(wanted) + "`", 404}};
  }
  return found;
}

std::string Shell::quota_id(const std::string& name) {
  return find(need(client().get_all("/api/v1/quotas", "Quotas")), "QuotaId", "QuotaName", name,
              "quota");
}
std::string Shell::workspace_id(const std::string& name) {
  return find(need(client().get_all("/api/v1/workspaces", "Workspaces")), "WorkspaceId",
              "WorkspaceName", name, "workspace");
}
std::string Shell::job_id(const std::string& name) {
  if (name.starts_with("dlc") && name.size() == 29) return name;
  return find(
      need(client().get_all("/api/v1/jobs", "Jobs",
                            {{"DisplayName", name}, {"StartTime", "1970-01-01T00:00:00Z"}})),
      "JobId", "DisplayName", name, "job");
}
std::string Shell::instance_id(const std::string& name) {
  if (name.starts_with("dsw-") && name.size() == 30) return name;
  return find(need(client().get_all("/api/v2/instances", "Instances", {{"InstanceName", name}})),
              "InstanceId", "InstanceName", name, "instance");
}

Json resolved_home(Json body, Shell& shell) {
  if (body.contains("Quota")) {
    body["ResourceId"] = shell.quota_id(body["Quota"]);
    body.erase("Quota");
  }
  if (body.contains("Workspace")) {
    body["WorkspaceId"] = shell.workspace_id(body["Workspace"]);
    body.erase("Workspace");
  }
  return body;
}

Json resolved_service(Json body, Shell& shell) {
  body.erase("cronscaler");
  if (!body.contains("metadata")) return body;
  Json& metadata = body["metadata"];
  if (metadata.contains("quota")) {
    metadata["quota_id"] = shell.quota_id(metadata["quota"]);
    metadata.erase("quota");
  }
  if (metadata.contains("workspace")) {
    metadata["workspace_id"] = shell.workspace_id(metadata["workspace"]);
    metadata.erase("workspace");
  }
  return body;
}

Json resolved_quota(Json body, Shell& shell) {
  if (body.contains("ParentQuota")) {
    body["ParentQuotaId"] = shell.quota_id(body["ParentQuota"]);
    body.erase("ParentQuota");
  }
  if (body.contains("ResourceGroups")) {
    const Json groups = need(shell.client().get_all("/api/v1/resources", "ResourceGroups"));
    Json ids = Json::array();
    for (const Json& wanted : body["ResourceGroups"]) {
      std::string id;
      for (const Json& group : groups) {
        if (group.value("Name", "") == wanted || group.value("ResourceGroupID", "") == wanted) {
          id = group.value("ResourceGroupID", "");
        }
      }
      if (id.empty()) {
        throw Refused{{"NotFound", "there is no resource group " + api::shown(wanted), 404}};
      }
      ids.push_back(id);
    }
    body["ResourceGroupIds"] = ids;
    body.erase("ResourceGroups");
  }
  return body;
}

}  // namespace ebb::cli
