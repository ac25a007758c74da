// Ebb's own operations under /ebb/v1/: status, overview, decisions, explain.
#include <algorithm>

#include "gateway/operations/workload_operations.hpp"
#include "gateway/translation/quota_json.hpp"
#include "gateway/translation/tree_facts.hpp"

namespace ebb::gateway {
namespace {

constexpr const char* kVersion = "0.1.0";

double gpus(std::int64_t milli) { return static_cast<double>(milli) / 1'000.0; }

Task<Result<Json>> status(Desk& desk, Call) {
  co_return Json{{"Version", kVersion},
                 {"Clock", time_text(desk.wall_ms())},
                 {"ClockMs", desk.wall_ms()},
                 {"StoreWritable", desk.writable()}};
}

Json quota_line(const v1::QuotaView& view, int depth) {
  std::map<std::string, int> waiting;
  std::map<std::string, int> running;
  std::int64_t waiting_gpu = 0;
  for (const auto& entry : view.entries()) {
    const char* product = product_name(entry.need().product());
    if (entry.phase() == v1::CLAIM_PHASE_WAITING) {
      ++waiting[product];
      for (const auto& shape : entry.need().shapes())
        waiting_gpu += shape.each().gpu_milli() * shape.pods();
    } else if (entry.phase() == v1::CLAIM_PHASE_RUNNING) {
      ++running[product];
    }
  }
  const v1::QuotaSpec& spec = view.spec();
  return {{"QuotaId", spec.quota_id()},
          {"QuotaName", spec.name()},
          {"ParentQuotaId", spec.parent_id()},
          {"Depth", depth},
          {"GuaranteeGPU", gpus(sum_of(spec.guarantee()).gpu_milli)},
          {"HoldingGPU", gpus(sum_of(view.holding()).gpu_milli)},
          {"UsedGPU", gpus(sum_of(view.used()).gpu_milli)},
          {"DescendantsUsedGPU", gpus(sum_of(view.descendants()).gpu_milli)},
          {"IdleUsedGPU", gpus(sum_of(view.idle_used()).gpu_milli)},
          {"WaitingGPU", gpus(waiting_gpu)},
          {"Waiting", waiting},
          {"Running", running}};
}

/// Ids with depth, parents first.
void tree_order(const std::vector<v1::QuotaRecord>& all, const std::string& parent, int depth,
                std::vector<std::pair<std::string, int>>& out) {
  for (const auto& quota : all) {
    if (quota.spec().parent_id() != parent || depth > 64) continue;
    out.emplace_back(quota.spec().quota_id(), depth);
    tree_order(all, quota.spec().quota_id(), depth + 1, out);
  }
}

Task<Result<Json>> overview(Desk& desk, Call) {
  std::vector<std::pair<std::string, int>> order;
  tree_order(desk.lists().quotas(), "", 0, order);
  Json quotas = Json::array();
  for (const auto& [id, depth] : order) {
    auto view = co_await desk.quota(id);
    if (!view && view.refusal().http_status == 404) continue;
    if (!view) co_return view.refusal();
    quotas.push_back(quota_line(*view, depth));
  }
  const auto tenant = desk.lists().tenant();
  Json nodes = Json::array();
  scheduling::Amount total;
  scheduling::Amount in_quota;
  scheduling::Amount idle;
  std::map<std::string, int> states;
  for (const auto& root : tenant.roots()) {
    auto pool = co_await desk.pool(root.spec().pool());
    if (!pool && pool.refusal().http_status == 404) continue;
    if (!pool) co_return pool.refusal();
    for (const auto& node : pool->nodes()) {
      total += amount_of(node.total());
      in_quota += amount_of(node.in_quota());
      idle += amount_of(node.idle());
      ++states[node.state()];
      nodes.push_back({{"NodeName", node.node()},
                       {"NodeType", node.node_type()},
                       {"State", node.state()},
                       {"GPU", gpus(node.total().gpu_milli())},
                       {"InQuotaGPU", gpus(node.in_quota().gpu_milli())},
                       {"IdleGPU", gpus(node.idle().gpu_milli())},
                       {"Pods", node.pods_size()}});
    }
  }
  // A GPU that is promised in-quota while its idle pod still leaves counts for both.
  const std::int64_t free_milli = total.gpu_milli - in_quota.gpu_milli - idle.gpu_milli;
  co_return Json{{"Clock", time_text(desk.wall_ms())},
                 {"ClockMs", desk.wall_ms()},
                 {"Quotas", std::move(quotas)},
                 {"Nodes", std::move(nodes)},
                 {"NodeStates", states},
                 {"NodesKnown", tenant.nodes_size()},
                 {"TotalGPU", gpus(total.gpu_milli)},
                 {"InQuotaGPU", gpus(in_quota.gpu_milli)},
                 {"IdleUsedGPU", gpus(idle.gpu_milli)},
                 {"FreeGPU", gpus(std::max<std::int64_t>(0, free_milli))}};
}

Task<Result<Json>> decisions(Desk& desk, Call call) {
  const auto number = [](const std::string& text,
                         std::uint64_t fallback) -> std::optional<std::uint64_t> {
    if (text.empty()) return fallback;
    if (text.size() > 18 ||
        !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      return std::nullopt;
    }
    return std::stoull(text);
  };
  const auto after = number(text_of(call.query, "after"), 0);
  const auto limit = number(text_of(call.query, "limit"), 100);
  if (!after) co_return Refusal{"InvalidParameter", "after must be a whole number", 400};
  if (!limit || *limit < 1 || *limit > 1'000) {
    co_return Refusal{"InvalidParameter", "limit must be a whole number from 1 to 1000", 400};
  }
  Json list = Json::array();
  std::uint64_t last = *after;
  for (const auto& line : desk.post().decisions(*after, *limit)) {
    list.push_back({{"Number", line.number},
                    {"Time", time_text(line.wall_ms)},
                    {"TimeMs", line.wall_ms},
                    {"Actor", line.actor},
                    {"Line", line.line}});
    last = std::max(last, line.number);
  }
  co_return Json{{"Decisions", std::move(list)}, {"Last", last}};
}

Json preemption_json(const v1::AttemptRecord& attempt) {
  return {
      {"Attempt", attempt.attempt()},
      {"Time", time_text(attempt.ended_wall_ms())},
      {"Outcome", attempt.outcome()},
      {"Reason", attempt.has_preempt() ? v1::PreemptReason_Name(attempt.preempt().reason()) : ""},
      {"By", id_of_address(attempt.preempt().by().workload())},
      {"ByQuota", attempt.preempt().by_quota()},
      {"Sentence", attempt.preempt().sentence()}};
}

/// One sentence with the numbers that decided.
std::string sentence_of(const v1::WorkloadRecord& record, const v1::QueueEntry* waiting,
                        const v1::QuotaSpec& quota) {
  const std::string who = record.spec().name() + " is " + record.status();
  if (waiting != nullptr) {
    std::string text =
        who + " in quota " + quota.name() + ", position " + std::to_string(waiting->position());
    const std::string why =
        waiting->has_wait() ? waiting->wait().sentence() : record.wait().sentence();
    return why.empty() ? text : text + ": " + why;
  }
  if (!record.reason_message().empty()) return who + ": " + record.reason_message();
  if (uses_idle(record)) return who + " on idle resources: it may be asked to leave at any time";
  if (record.status() == "Running") return who + " in quota " + quota.name();
  return who;
}

Task<Result<Json>> explain(Desk& desk, Call call) {
  const std::string id = call.path["WorkloadId"];
  const std::string address = address_of_workload(id);
  if (address.empty()) co_return not_found("workload", id);
  auto record = co_await desk.workload(address);
  if (!record) co_return record.refusal();
  auto view = co_await desk.quota(record->spec().quota_id());
  if (!view) co_return view.refusal();
  Json claims = Json::array();
  const v1::QueueEntry* first_waiting = nullptr;
  for (const auto& entry : view->entries()) {
    if (entry.claim().workload() != address) continue;
    const bool waits = entry.phase() == v1::CLAIM_PHASE_WAITING;
    if (waits && (first_waiting == nullptr || entry.position() < first_waiting->position())) {
      first_waiting = &entry;
    }
    claims.push_back({{"Index", entry.claim().index()},
                      {"Attempt", entry.attempt()},
                      {"Phase", v1::ClaimPhase_Name(entry.phase())},
                      {"Position", entry.position()},
                      {"Idle", entry.admitted() == v1::CLAIM_CLASS_IDLE},
                      {"Code", entry.has_wait() ? v1::WaitCode_Name(entry.wait().code()) : ""},
                      {"Sentence", entry.wait().sentence()}});
  }
  Json preemptions = Json::array();
  for (const auto& attempt : record->history()) {
    if (attempt.has_preempt()) preemptions.push_back(preemption_json(attempt));
  }
  co_return Json{{"WorkloadId", id},
                 {"Name", record->spec().name()},
                 {"Product", product_name(record->spec().product())},
                 {"Status", record->status()},
                 {"SubStatus", record->sub_status()},
                 {"QuotaId", record->spec().quota_id()},
                 {"QuotaName", view->spec().name()},
                 {"Priority", record->spec().priority()},
                 {"Position", first_waiting == nullptr ? 0 : first_waiting->position()},
                 {"Sentence", sentence_of(*record, first_waiting, view->spec())},
                 {"Claims", std::move(claims)},
                 {"Preemptions", std::move(preemptions)},
                 {"Events", events_json(*record, 0, INT64_MAX, 20)}};
}

}  // namespace

void add_ebb_operations(OperationTable& table) {
  const auto own = [](const char* name, const char* path, std::vector<std::string> query) {
    return api::Catalogue::own(name, "GET", path, std::move(query));
  };
  table.add_own(own("GetStatus", "/ebb/v1/status", {}), status);
  table.add_own(own("GetOverview", "/ebb/v1/overview", {}), overview);
  table.add_own(own("ListDecisions", "/ebb/v1/decisions", {"after", "limit"}), decisions);
  table.add_own(own("Explain", "/ebb/v1/explain/{WorkloadId}", {}), explain);
}

}  // namespace ebb::gateway
