// The reference cluster as the gateway sees it: 16 nodes of 8 A100, quota 1 with children 1.1
// and 1.2, workspace_b.
#pragma once
#include <optional>
#include <string>

#include "gateway/dispatcher.hpp"
#include "tests/gateway/fake_post.hpp"

namespace ebb::gateway::testing {

inline constexpr const char* kToken = "right-token";

inline v1::TenantRecord sixteen_nodes() {
  v1::TenantRecord tenant;
  for (int i = 0; i < 16; ++i) {
    auto* node = tenant.add_nodes();
    node->set_root_quota("quotaroot");
    node->mutable_facts()->set_node("n" + std::to_string(i));
    node->mutable_facts()->set_node_type("A100");
    node->mutable_facts()->set_gpu_model("NVIDIA-A100");
    node->mutable_facts()->set_resource_type("Lingjun");
    node->mutable_facts()->mutable_total()->set_gpu_milli(8'000);
    node->mutable_facts()->mutable_total()->set_cpu_milli(128'000);
    node->mutable_facts()->mutable_total()->set_memory_bytes(std::int64_t{1} << 40);
  }
  auto* root = tenant.add_roots();
  root->mutable_spec()->set_quota_id("quotaroot");
  root->mutable_spec()->set_pool("pool/quotaroot");
  auto* wanted = root->add_wanted();
  wanted->set_node_type("A100");
  wanted->set_nodes(16);
  return tenant;
}

inline v1::QuotaSpec quota_spec(const std::string& id, const std::string& name,
                                const std::string& parent, std::int64_t gpus) {
  v1::QuotaSpec spec;
  spec.set_quota_id(id);
  spec.set_name(name);
  spec.set_parent_id(parent);
  spec.set_root_id("quotaroot");
  spec.set_pool("pool/quotaroot");
  spec.set_resource_type("Lingjun");
  spec.set_queue_strategy("PaiStrategyIntelligent");
  auto* guarantee = spec.add_guarantee();
  guarantee->set_node_type("A100");
  guarantee->mutable_amount()->set_gpu_milli(gpus * 1'000);
  return spec;
}

class World {
 public:
  FakePost post;
  std::optional<Projection> lists;
  std::optional<Desk> desk;
  Authentication authentication{kToken, {}};
  std::optional<Dispatcher> dispatcher;

  World() {
    post.answers("tenant", sixteen_nodes());
    post.record("tenant", "TenantRecord", sixteen_nodes());
    add_quota(quota_spec("quotaroot", "1", "", 128));
    add_quota(quota_spec("quota11", "1.1", "quotaroot", 48));
    add_quota(quota_spec("quota12", "1.2", "quotaroot", 80));
    v1::WorkspaceRecord workspace;
    workspace.mutable_spec()->set_id("wsb");
    workspace.mutable_spec()->set_name("workspace_b");
    post.answers("workspace/wsb", workspace);
    post.record("workspace/wsb", "WorkspaceRecord", workspace);
    lists.emplace(post.store());
    desk.emplace(
        post, *lists, [](const std::function<void()>& work) { work(); }, 1'000);
    dispatcher.emplace(*desk, authentication);
  }

  void add_quota(const v1::QuotaSpec& spec) {
    v1::QuotaView view;
    *view.mutable_spec() = spec;
    post.answers("quota/" + spec.quota_id(), view);
    v1::QuotaRecord record;
    *record.mutable_spec() = spec;
    post.record("quota/" + spec.quota_id(), "QuotaRecord", record);
  }

  struct Answer {
    int status = 0;
    Json body;
    std::string message() const { return body.is_object() ? body.value("Message", "") : ""; }
    std::string code() const { return body.is_object() ? body.value("Code", "") : ""; }
  };
  /// As the administrator; `target` may carry a query that needs no decoding.
  Answer ask(const std::string& method, const std::string& target, const Json& body = nullptr,
             const std::string& version = "") {
    HttpRequest request;
    request.method = method;
    const auto mark = target.find('?');
    request.path = target.substr(0, mark);
    if (mark != std::string::npos) {
      for (const std::string& pair : split_pairs(target.substr(mark + 1))) {
        const auto equals = pair.find('=');
        request.query.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
      }
    }
    request.headers["authorization"] = std::string("Bearer ") + kToken;
    if (!version.empty()) request.headers["x-acs-version"] = version;
    if (!body.is_null()) request.body = body.dump();
    return send(request);
  }
  Answer send(const HttpRequest& request) {
    Answer answer;
    dispatcher->dispatch(request, 0, [&](const HttpAnswer& given) {
      answer.status = given.status;
      answer.body = Json::parse(given.body);
    });
    return answer;
  }
  /// The last command sent to an address.
  const v1::Envelope& last_to(const std::string& address) {
    for (auto it = post.asked.rbegin(); it != post.asked.rend(); ++it) {
      if (it->to() == address) return *it;
    }
    throw std::runtime_error("nothing was sent to " + address);
  }

 private:
  static std::vector<std::string> split_pairs(const std::string& text) {
    std::vector<std::string> parts;
    std::size_t at = 0;
    while (at <= text.size()) {
      const std::size_t end = std::min(text.find('&', at), text.size());
      parts.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return parts;
  }
};

}  // namespace ebb::gateway::testing
