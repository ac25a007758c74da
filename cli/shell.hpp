// What every command of `ebb` works with: the client, the wanted format, names to ids, and the ways
// to print.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "cli/client.hpp"
#include "cli/output.hpp"

namespace ebb::cli {

/// A command ends by returning; a refusal is thrown to main, which prints it and exits with 1.
struct Refused {
  Refusal refusal;
};
template <class T>
T need(Result<T> result) {
  if (!result) throw Refused{result.refusal()};
  return std::move(result.value());
}

class Shell {
 public:
  std::string server;
  std::string data_dir;
  std::string format_name = "table";

  Client& client();
  Format format() const;

  void print(const std::string& text) const;
  void print_list(const Json& items, const std::vector<Column>& columns, const char* id) const;
  void print_object(const Json& object, const char* id) const;
  /// What a changing command did: its id alone when quiet, the answer as JSON or YAML, else a
  /// sentence.
  void print_done(const Json& answer, const char* id, const std::string& sentence) const;

  /// Id of what has this id or name. Refused if there is none, or several.
  std::string quota_id(const std::string& name);
  std::string workspace_id(const std::string& name);
  /// Only where the text is not an id of that kind.
  std::string job_id(const std::string& name);
  std::string instance_id(const std::string& name);

 private:
  std::string find(const Json& items, const char* id, const char* name, const std::string& wanted,
                   const char* what);
  std::optional<Client> client_;
};

void add_quota_commands(CLI::App& app, Shell& shell);
void add_node_commands(CLI::App& app, Shell& shell);
void add_workspace_commands(CLI::App& app, Shell& shell);
void add_job_commands(CLI::App& app, Shell& shell);
void add_service_commands(CLI::App& app, Shell& shell);
void add_instance_commands(CLI::App& app, Shell& shell);
void add_cluster_commands(CLI::App& app, Shell& shell);  // status, top, explain, apply

/// Puts ids in the place of names in a job's or instance's body (Quota, Workspace).
Json resolved_home(Json body, Shell& shell);
/// The same for a service's document (metadata.quota, metadata.workspace). `cronscaler` is taken
/// out.
Json resolved_service(Json body, Shell& shell);
/// The same for a quota (ParentQuota, ResourceGroups).
Json resolved_quota(Json body, Shell& shell);

}  // namespace ebb::cli
