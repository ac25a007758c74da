#include "cli/apply.hpp"

#include <map>

namespace ebb::cli {
namespace {

/// Whether `now` already is what `wanted` says; what `wanted` leaves out may be anything.
bool holds(const Json& now, const Json& wanted) {
  if (wanted.is_null()) return true;
  if (wanted.is_object()) {
    for (const auto& [key, inner] : wanted.items()) {
      if (!holds(now.is_object() && now.contains(key) ? now[key] : Json(), inner)) return false;
    }
    return true;
  }
  const auto text = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  return wanted == now || (!now.is_null() && text(wanted) == text(now));
}

class Applier {
 public:
  Applier(const ApplyFile& file, Shell& shell) : file_(file), shell_(shell) {}

  void run() {
    each(file_.groups, [this](const ApplyItem& item) { group(item); });
    quotas_ = by_name("/api/v1/quotas", "Quotas", "QuotaName");
    each(file_.quotas, [this](const ApplyItem& item) { quota(item); });
    scale_children();
    workspaces_ = by_name("/api/v1/workspaces", "Workspaces", "WorkspaceName");
    each(file_.workspaces, [this](const ApplyItem& item) { workspace(item); });
    services_ = by_name("/api/v2/services", "Services", "ServiceName");
    each(file_.services, [this](const ApplyItem& item) { service(item); });
    if (!file_.jobs.empty()) {
      jobs_ =
          by_name("/api/v1/jobs", "Jobs", "DisplayName", {{"StartTime", "1970-01-01T00:00:00Z"}});
    }
    each(file_.jobs, [this](const ApplyItem& item) {
      create_once(item, jobs_, "/api/v1/jobs", "/JobId", "job");
    });
    if (!file_.instances.empty())
      instances_ = by_name("/api/v2/instances", "Instances", "InstanceName");
    each(file_.instances, [this](const ApplyItem& item) {
      create_once(item, instances_, "/api/v2/instances", "/InstanceId", "instance");
    });
  }

 private:
  using ByName = std::map<std::string, Json>;

  /// A refusal names the item's place in the file.
  template <class Act>
  void each(const std::vector<ApplyItem>& items, Act act) {
    for (const ApplyItem& item : items) {
      try {
        act(item);
      } catch (Refused& refused) {
        throw Refused{at(item, refused.refusal)};
      }
    }
  }

  Refusal at(const ApplyItem& item, Refusal refusal) const {
    refusal.message =
        file_.file + ":" + std::to_string(item.line) + ": " + item.name + ": " + refusal.message;
    return refusal;
  }

  ByName by_name(const std::string& path, const std::string& list, const char* field,
                 Query query = {}) {
    ByName found;
    for (const Json& one : need(shell_.client().get_all(path, list, std::move(query)))) {
      found[one.value(field, "")] = one;
    }
    return found;
  }

  void say(const std::string& sentence) {
    if (shell_.format() == Format::Table) shell_.print(api::plain_text(sentence) + "\n");
  }

  static Refusal unknown(const char* what, const std::string& name) {
    return {"NotFound",
            std::string("there is no ") + what + " `" + name + "`, here or in the cluster", 404};
  }

  std::string id_in(const ByName& all, const char* id, const std::string& name, const char* what) {
    const auto it = all.find(name);
    if (it != all.end()) return it->second.value(id, "");
    for (const auto& entry : all) {
      if (entry.second.value(id, "") == name) return name;
    }
    throw Refused{unknown(what, name)};
  }
  std::string quota_id(const std::string& name) { return id_in(quotas_, "QuotaId", name, "quota"); }
  std::string workspace_id(const std::string& name) {
    return id_in(workspaces_, "WorkspaceId", name, "workspace");
  }

  void group(const ApplyItem& item) {
    if (!groups_read_) {
      groups_ = by_name("/api/v1/resources", "ResourceGroups", "Name");
      groups_read_ = true;
    }
    if (groups_.contains(item.name)) return say("resource group " + item.name + ": is there");
    need(shell_.client().post("/api/v1/resources", item.body));
    say("resource group " + item.name + ": created");
  }

  void quota(const ApplyItem& item) {
    Json body = item.body;
    const std::string parent = body.value("ParentQuota", "");
    body.erase("ParentQuota");
    const auto now = quotas_.find(item.name);
    if (now == quotas_.end()) {
      if (!parent.empty()) body["ParentQuotaId"] = quota_id(parent);
      const Json answer =
          need(shell_.client().post("/api/v1/quotas", resolved_quota(body, shell_)));
      quotas_[item.name] = {{"QuotaId", answer.value("QuotaId", "")}, {"QuotaName", item.name}};
      return say("quota " + item.name + ": created");
    }
    const Json& there = now->second;
    const std::string id = there.value("QuotaId", "");
    Json change = Json::object();
    for (const char* field : {"Description", "Labels", "QueueStrategy", "QuotaConfig"}) {
      if (body.contains(field) && !holds(there.value(field, Json()), body[field])) {
        change[field] = body[field];
      }
    }
    if (!change.empty()) need(shell_.client().put("/api/v1/quotas/" + encoded(id), change));
    const std::string sentence =
        "quota " + item.name + (change.empty() ? ": is there" : ": updated");
    const Json min = body.value("Min", Json());
    const Json min_now = there.value("Min", Json::object());
    if (min.is_null() || (parent.empty() ? same_nodes(min_now, min) : holds(min_now, min))) {
      return say(sentence);
    }
    if (parent.empty()) {
      need(shell_.client().put("/api/v1/quotas/" + encoded(id) + "/action/scale", {{"Min", min}}));
    } else {
      wishes_[parent].push_back({{"QuotaId", id}, {"Min", min}});
      wish_items_.emplace(parent, &item);
    }
    say(sentence + ", scaling");
  }

  static bool same_nodes(const Json& now, const Json& wanted) {
    const Json one = now.value("NodeSpecs", Json::array());
    const Json other = wanted.value("NodeSpecs", Json::array());
    if (one.size() != other.size()) return false;
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (one[i].value("Type", "") != other[i].value("Type", "") ||
          one[i].value("Count", 0) != other[i].value("Count", 0)) {
        return false;
      }
    }
    return true;
  }

  /// Guarantees of children that were there already: the children of one parent in one change, so
  /// that one may grow by what another gives up.
  void scale_children() {
    for (const auto& [parent, wishes] : wishes_) {
      auto done = shell_.client().post("/ebb/v1/quotas/scale", {{"Quotas", wishes}});
      if (!done) throw Refused{at(*wish_items_.at(parent), done.refusal())};
    }
  }

  void workspace(const ApplyItem& item) {
    Json body = item.body;
    body.erase("Quotas");
    body.erase("Members");
    if (!workspaces_.contains(item.name)) {
      const Json answer = need(shell_.client().post("/api/v1/workspaces", body));
      workspaces_[item.name] = {{"WorkspaceId", answer.value("WorkspaceId", "")},
                                {"WorkspaceName", item.name}};
      say("workspace " + item.name + ": created");
    } else {
      say("workspace " + item.name + ": is there");
    }
    const std::string path = "/api/v1/workspaces/" + encoded(workspace_id(item.name));
    Json resources = Json::array();
    for (const Json& name : item.body.value("Quotas", Json::array())) {
      resources.push_back({{"Spec", {{"resourceId", quota_id(name.get<std::string>())}}}});
    }
    if (!resources.empty())
      need(shell_.client().post(path + "/resources", {{"Resources", resources}}));
    const Json members = item.body.value("Members", Json::array());
    if (!members.empty()) need(shell_.client().post(path + "/members", {{"Members", members}}));
  }

  void service(const ApplyItem& item) {
    Json body = item.body;
    const Json cron = body.value("cronscaler", Json());
    body.erase("cronscaler");
    Json& metadata = body["metadata"];
    if (!metadata.is_object()) metadata = Json::object();
    move_home(metadata, "quota", "quota_id", "workspace", "workspace_id");
    const std::string path = "/api/v2/services/ebb/" + encoded(item.name);
    const auto now = services_.find(item.name);
    if (now == services_.end()) {
      need(shell_.client().post("/api/v2/services", body));
      say("service " + item.name + ": created");
      if (cron.is_object()) need(shell_.client().post(path + "/cronscaler", cron));
      return;
    }
    // Where a cron scaler rules, the number of replicas is its own, not the file's.
    if (!cron.is_object() && metadata.contains("instance") &&
        metadata["instance"] != now->second.value("TotalInstance", Json())) {
      need(shell_.client().put(path + "/scale", {{"Instance", metadata["instance"]}}));
      say("service " + item.name + ": scaling");
    } else {
      say("service " + item.name + ": is there");
    }
    if (cron.is_object()) {
      const bool exists = now->second.value("CronscalerEnabled", false);
      need(exists ? shell_.client().put(path + "/cronscaler", cron)
                  : shell_.client().post(path + "/cronscaler", cron));
    }
  }

  void move_home(Json& body, const char* quota, const char* quota_id_field, const char* workspace,
                 const char* workspace_id_field) {
    if (body.contains(quota)) {
      body[quota_id_field] = quota_id(body[quota]);
      body.erase(quota);
    }
    if (body.contains(workspace)) {
      body[workspace_id_field] = workspace_id(body[workspace]);
      body.erase(workspace);
    }
  }

  /// Jobs and instances: what has the name is left as it is.
  void create_once(const ApplyItem& item, const ByName& there, const char* path, const char* id,
                   const char* what) {
    if (there.contains(item.name)) return say(std::string(what) + " " + item.name + ": is there");
    Json body = item.body;
    move_home(body, "Quota", "ResourceId", "Workspace", "WorkspaceId");
    const Json answer = need(shell_.client().post(path, body));
    say(std::string(what) + " " + item.name + ": created (" + cell(answer, id) + ")");
  }

  const ApplyFile& file_;
  Shell& shell_;
  ByName groups_, quotas_, workspaces_, services_, jobs_, instances_;
  bool groups_read_ = false;
  std::map<std::string, Json> wishes_;  // by parent's name
  std::map<std::string, const ApplyItem*> wish_items_;
};

}  // namespace

void apply(const ApplyFile& file, Shell& shell) { Applier(file, shell).run(); }

}  // namespace ebb::cli
