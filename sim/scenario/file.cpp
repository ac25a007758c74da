#include "sim/scenario/file.hpp"

#include <algorithm>
#include <cmath>

#include "actors/records.hpp"

namespace ebb::sim {
namespace {
std::int64_t milli(const Json& value) { return std::llround(value.get<double>() * 1000); }

v1::Product product_of(const std::string& kind) {
  if (kind == "service") return v1::PRODUCT_SERVICE;
  if (kind == "instance") return v1::PRODUCT_INSTANCE;
  if (kind == "job") return v1::PRODUCT_JOB;
  throw std::runtime_error("kind \"" + kind + "\" is unknown; allowed: job, service, instance");
}
std::string room_of(v1::Product product) {
  return product == v1::PRODUCT_SERVICE ? "service/"
         : product == v1::PRODUCT_JOB   ? "job/"
                                        : "instance/";
}

void read_nodes(const Json& list, Scenario* out) {
  for (const Json& node : list) {
    const int count = node.value("count", 1);
    for (int i = 0; i < count; ++i) {
      const std::string name = node.at("name").get<std::string>();
      out->nodes.push_back({count > 1 ? name + std::to_string(i) : name, node.value("type", "gpu"),
                            node.at("gpus").get<std::int64_t>(),
                            node.value("state", "ready") == "cordoned"});
    }
  }
}

void set_self_preemption(const Json& rule, v1::QuotaSpec* spec) {
  spec->set_self_preemption(rule.value("on", false));
  for (const Json& p : rule.value("from", Json::array())) {
    spec->add_preemptor_priorities(p.get<int>());
  }
  for (const Json& p : rule.value("to", Json::array())) {
    spec->add_preempted_priorities(p.get<int>());
  }
  for (const auto product : {v1::PRODUCT_JOB, v1::PRODUCT_SERVICE, v1::PRODUCT_INSTANCE}) {
    spec->add_preempted_products(product);
  }
}

void read_quotas(const Json& list, Scenario* out) {
  std::string root;
  for (const Json& quota : list) {
    QuotaCase read;
    const std::string name = quota.at("name").get<std::string>();
    read.spec.set_quota_id(name);
    read.spec.set_name(name);
    const bool is_root = !quota.contains("parent") || quota.at("parent").is_null();
    if (is_root) {
      if (!root.empty()) throw std::runtime_error("quotas: more than one root");
      root = name;
    } else {
      read.spec.set_parent_id(quota.at("parent").get<std::string>());
    }
    read.guarantee = min_of(quota.at("min"), out->nodes);
    actors::set(read.spec.mutable_guarantee(), read.guarantee);
    read.spec.set_idle_closed(!quota.value("lend", true));
    read.spec.set_gpu_share(quota.value("share", false));
    if (quota.contains("policy")) {
      const std::string policy = quota.at("policy").get<std::string>();
      read.spec.set_queue_strategy(policy.starts_with("PaiStrategy") ? policy
                                                                     : "PaiStrategy" + policy);
    }
    if (quota.contains("selfPreemption")) {
      set_self_preemption(quota.at("selfPreemption"), &read.spec);
    }
    if (quota.contains("childPreemption")) {
      set_child_preemption(quota.at("childPreemption"), &read.spec);
    }
    read.spec.set_resource_type("ECS");
    out->quotas.push_back(std::move(read));
  }
  for (QuotaCase& quota : out->quotas) {
    quota.spec.set_pool("pool/" + root);
    quota.spec.set_root_id(root);
  }
}

void read_workloads(const Json& list, Scenario* out) {
  for (const Json& entry : list) {
    const int count = entry.value("count", 1);
    for (int i = 0; i < count; ++i) {
      WorkloadCase read;
      read.id = entry.at("id").get<std::string>() + (count > 1 ? "-" + std::to_string(i) : "");
      read.product = product_of(entry.value("kind", "job"));
      read.address = room_of(read.product) + read.id;
      read.quota = entry.at("quota").get<std::string>();
      read.pods = entry.at("pods").get<std::uint32_t>();
      read.gpu_milli = milli(entry.at("gpu"));
      read.priority = entry.value("priority", 1);
      const std::string idle = entry.value("idle", "never");
      read.idle = idle == "only"     ? v1::IDLE_MODE_ONLY
                  : idle == "accept" ? v1::IDLE_MODE_ACCEPTED
                                     : v1::IDLE_MODE_FORBIDDEN;
      for (const Json& type : entry.value("types", Json::array())) read.types.push_back(type);
      if (entry.contains("grace")) read.grace_ms = milli(entry.at("grace"));
      if (entry.contains("runs")) read.runs_ms = milli(entry.at("runs"));
      if (entry.contains("checkpointEvery")) {
        read.checkpoint_every_ms = milli(entry.at("checkpointEvery"));
      }
      out->workloads.push_back(std::move(read));
    }
  }
}

void read_start(const Json& list, Scenario* out) {
  for (const Json& entry : list) {
    StartCase read;
    const std::string id = entry.at("id").get<std::string>();
    for (const WorkloadCase& workload : out->workloads) {
      const bool numbered =
          workload.id.starts_with(id + "-") &&
          workload.id.find_first_not_of("0123456789", id.size() + 1) == std::string::npos;
      if (workload.id == id || numbered) read.members.push_back(workload.id);
    }
    if (read.members.empty()) throw std::runtime_error("start: workload \"" + id + "\" is unknown");
    read.idle = entry.value("class", "in-quota") == "idle";
    const Json on = entry.value("on", Json::object());
    for (const auto& [node, gpus] : on.items()) read.on.emplace_back(node, milli(gpus));
    if (entry.contains("since")) read.since_ms = milli(entry.at("since"));
    out->start.push_back(std::move(read));
  }
}
}  // namespace

const WorkloadCase* Scenario::workload(const std::string& id) const {
  for (const WorkloadCase& one : workloads) {
    if (one.id == id) return &one;
  }
  return nullptr;
}
const QuotaCase* Scenario::quota(const std::string& id) const {
  for (const QuotaCase& one : quotas) {
    if (one.spec.quota_id() == id) return &one;
  }
  return nullptr;
}

scheduling::Amounts min_of(const Json& min, const std::vector<NodeCase>& nodes) {
  scheduling::Amounts amounts;
  if (min.is_object()) {
    for (const auto& [type, gpus] : min.items()) amounts[type].gpu_milli = milli(gpus);
  } else {
    amounts[nodes.empty() ? "gpu" : nodes.front().type].gpu_milli = milli(min);
  }
  return amounts;
}

void set_child_preemption(const Json& rule, v1::QuotaSpec* spec) {
  spec->set_child_preemption(rule.value("on", false));
  spec->mutable_child_filter()->set_priority_at_most(rule.value("upTo", 9));
  spec->mutable_child_filter()->clear_products();
  const Json kinds = rule.value("kinds", Json::array({"job", "service", "instance"}));
  for (const Json& kind : kinds) spec->mutable_child_filter()->add_products(product_of(kind));
}

bool fits(const std::string& pattern, const std::string& id) {
  const std::size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == id;
  const std::string head = pattern.substr(0, star);
  const std::string tail = pattern.substr(star + 1);
  return id.size() >= head.size() + tail.size() && id.starts_with(head) && id.ends_with(tail);
}

Result<Scenario> read_scenario(const std::string& text) {
  Scenario out;
  try {
    const Json json = Json::parse(text);
    out.id = json.at("id").get<std::string>();
    read_nodes(json.at("nodes"), &out);
    read_quotas(json.at("quotas"), &out);
    read_workloads(json.at("workloads"), &out);
    read_start(json.value("start", Json::array()), &out);
    for (const Json& event : json.value("events", Json::array())) out.events.push_back(event);
    out.expect = json.at("expect");
  } catch (const std::exception& error) {
    return Refusal{"InvalidScenario", error.what(), 400};
  }
  return out;
}

}  // namespace ebb::sim
