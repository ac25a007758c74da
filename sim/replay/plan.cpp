#include "sim/replay/plan.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

namespace ebb::sim {
namespace {
constexpr double kMsPerSecond = 1000;

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// YAML as the JSON that the scenario form reads.
Json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    Json out = Json::object();
    for (const auto& entry : node) out[entry.first.Scalar()] = json_of(entry.second);
    return out;
  }
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const auto& entry : node) out.push_back(json_of(entry));
    return out;
  }
  if (node.IsNull()) return nullptr;
  const bool quoted = node.Tag() == "!";
  std::int64_t whole = 0;
  double number = 0;
  if (!quoted && YAML::convert<std::int64_t>::decode(node, whole)) return whole;
  if (!quoted && YAML::convert<double>::decode(node, number)) return number;
  // Only these two: "n" and "on" are names here.
  if (!quoted && (node.Scalar() == "true" || node.Scalar() == "false")) {
    return node.Scalar() == "true";
  }
  return node.Scalar();
}

void only_keys(const Json& json, const std::string& where, const std::set<std::string>& allowed) {
  for (const auto& [key, value] : json.items()) {
    if (allowed.count(key) != 0) continue;
    std::string list;
    for (const std::string& one : allowed) list += (list.empty() ? "" : ", ") + one;
    throw Wrong(where + ": \"" + key + "\" is unknown; allowed: " + list);
  }
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

double number_in(const std::map<std::string, std::string>& row, const std::string& column,
                 const std::string& path) {
  const auto found = row.find(column);
  if (found == row.end()) throw Wrong("file: \"" + path + "\" has no column \"" + column + "\"");
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  if (end == found->second.c_str() || *end != 0) {
    throw Wrong("file: \"" + path + "\" column \"" + column + "\": \"" + found->second +
                "\" is no number");
  }
  return value;
}

std::int64_t ms_of(const Json& json, const char* key, double otherwise = 0) {
  return std::llround(json.value(key, otherwise) * kMsPerSecond);
}

class Reader {
 public:
  Reader(std::string path, std::string traces)
      : path_(std::move(path)), traces_(std::move(traces)) {}

  ReplayPlan read() {
    const Json json = json_of(YAML::LoadFile(path_));
    only_keys(json, path_,
              {"id", "nodes", "quotas", "jobs", "services", "checkpoint_s", "restart_s", "grace_s",
               "window_s"});
    Json cluster = {{"id", json.value("id", path_)},
                    {"nodes", json.at("nodes")},
                    {"quotas", json.at("quotas")},
                    {"workloads", Json::array()},
                    {"expect", Json::object()}};
    auto scenario = read_scenario(cluster.dump());
    if (!scenario) throw Wrong(scenario.refusal().message);
    plan_.cluster = std::move(*scenario);
    plan_.checkpoint_every_ms = ms_of(json, "checkpoint_s");
    plan_.restart_ms = ms_of(json, "restart_s");
    plan_.grace_ms = ms_of(json, "grace_s");
    plan_.window_ms = ms_of(json, "window_s");
    for (const Json& stream : json.value("jobs", Json::array())) read_jobs(stream);
    for (const Json& service : json.value("services", Json::array())) read_service(service);
    std::stable_sort(plan_.jobs.begin(), plan_.jobs.end(),
                     [](const auto& a, const auto& b) { return a.submit_ms < b.submit_ms; });
    return std::move(plan_);
  }

 private:
  Table table_of(const Json& json, std::string* path) {
    const std::string name = json.at("file").get<std::string>();
    const auto beside = std::filesystem::path(path_).parent_path() / name;
    *path = std::filesystem::exists(beside) ? beside.string() : traces_ + "/" + name;
    auto table = path->ends_with(".swf") ? read_swf(*path) : read_csv(*path);
    if (!table) throw Wrong(table.refusal().message);
    return std::move(*table);
  }

  std::int64_t guarantee_gpus(const std::string& quota) const {
    const QuotaCase* found = plan_.cluster.quota(quota);
    if (found == nullptr) throw Wrong("jobs: quota \"" + quota + "\" is not in quotas");
    std::int64_t most = 0;
    for (const auto& [type, amount] : found->guarantee) {
      most = std::max(most, amount.gpu_milli / 1000);
    }
    return most;
  }

  void read_jobs(const Json& json) {
    only_keys(json, "jobs",
              {"file", "submit", "run", "gpus", "only", "submitted_before_s", "all_at_once",
               "run_at_most_s", "quota", "quota_column", "priority", "idle", "run_times_known",
               "gpus_at_most_quota"});
    std::string path;
    const Table table = table_of(json, &path);
    const double before = json.value("submitted_before_s", std::numeric_limits<double>::max());
    const double longest = json.value("run_at_most_s", std::numeric_limits<double>::max());
    const std::string idle = json.value("idle", "never");
    if (idle != "never" && idle != "accept" && idle != "only") {
      throw Wrong("jobs: idle \"" + idle + "\"; allowed: never, accept, only");
    }
    std::map<std::string, std::set<std::string>> only;
    const Json wanted = json.value("only", Json::object());
    for (const auto& [column, values] : wanted.items()) {
      for (const Json& value : values) only[column].insert(text_of(value));
    }
    for (const auto& row : table.rows) {
      const bool taken = std::all_of(only.begin(), only.end(), [&](const auto& rule) {
        const auto found = row.find(rule.first);
        return found != row.end() && rule.second.count(found->second) != 0;
      });
      const double submit = number_in(row, json.value("submit", "submit"), path);
      const double run = std::min(longest, number_in(row, json.value("run", "run"), path));
      const double gpus = number_in(row, json.value("gpus", "processors"), path);
      if (!taken || submit >= before || run <= 0 || gpus < 1) continue;
      ReplayJob job;
      job.submit_ms = json.value("all_at_once", false) ? 0 : std::llround(submit * kMsPerSecond);
      job.run_ms = std::max<std::int64_t>(1, std::llround(run * kMsPerSecond));
      job.quota = json.contains("quota_column") ? row.at(json.at("quota_column").get<std::string>())
                                                : text_of(json.at("quota"));
      const std::int64_t most = guarantee_gpus(job.quota);
      job.gpus = std::llround(gpus);
      if (json.value("gpus_at_most_quota", false)) job.gpus = std::min(job.gpus, most);
      job.priority = json.value("priority", 1);
      job.idle = idle == "only"     ? v1::IDLE_MODE_ONLY
                 : idle == "accept" ? v1::IDLE_MODE_ACCEPTED
                                    : v1::IDLE_MODE_FORBIDDEN;
      job.run_time_known = json.value("run_times_known", false);
      plan_.jobs.push_back(std::move(job));
    }
  }

  void read_service(const Json& json) {
    only_keys(json, "services", {"id", "quota", "gpus", "priority", "demand"});
    ReplayService service;
    service.id = text_of(json.at("id"));
    service.quota = text_of(json.at("quota"));
    (void)guarantee_gpus(service.quota);
    service.gpus = json.at("gpus").get<std::int64_t>();
    service.priority = json.value("priority", 9);
    const Json& demand = json.at("demand");
    only_keys(demand, "demand", {"file", "time", "value", "scale", "at_least", "repeat_s"});
    std::string path;
    const Table table = table_of(demand, &path);
    const double scale = demand.value("scale", 1.0);
    const double least = demand.value("at_least", 0.0);
    for (const auto& row : table.rows) {
      const double value = number_in(row, demand.value("value", "value"), path);
      service.demand.push_back(
          {std::llround(number_in(row, demand.value("time", "t_s"), path) * kMsPerSecond),
           static_cast<std::uint32_t>(std::max(least, std::ceil(value * scale)))});
    }
    if (service.demand.empty()) throw Wrong("demand: \"" + path + "\" has no rows");
    service.repeat_ms = ms_of(demand, "repeat_s");
    plan_.services.push_back(std::move(service));
  }

  const std::string path_, traces_;
  ReplayPlan plan_;
};
}  // namespace

Result<ReplayPlan> read_replay_plan(const std::string& path, const std::string& traces) {
  try {
    return Reader(path, traces).read();
  } catch (const std::exception& error) {
    return Refusal{"InvalidReplay", error.what(), 400};
  }
}

}  // namespace ebb::sim
