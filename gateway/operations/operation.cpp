#include "gateway/operations/operation.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "gateway/translation/common_json.hpp"

namespace ebb::gateway {
namespace {

/// Where two products share a path and no version says which: the order of the API notes.
constexpr std::array<std::string_view, 6> kProductOrder = {"ebb", "studio", "dlc",
                                                           "eas", "dsw",    "workspace"};

std::size_t rank_of(const std::string& product) {
  return static_cast<std::size_t>(std::find(kProductOrder.begin(), kProductOrder.end(), product) -
                                  kProductOrder.begin());
}

}  // namespace

OperationTable::OperationTable() {
  add_quota_operations(*this);
  add_node_operations(*this);
  add_workspace_operations(*this);
  add_job_operations(*this);
  add_service_operations(*this);
  add_instance_operations(*this);
  add_ebb_operations(*this);
}

void OperationTable::add(const char* product, const char* name, api::Supported query,
                         api::Supported body, Handler handler, std::size_t body_bytes_max) {
  const api::Operation* operation = api::Catalogue::instance().find(product, name);
  EBB_ASSERT(operation != nullptr);
  entries_.push_back({operation, std::move(query), std::move(body), handler, body_bytes_max});
}

void OperationTable::add_own(api::Operation operation, Handler handler) {
  own_.push_back(std::make_unique<api::Operation>(std::move(operation)));
  entries_.push_back({own_.back().get(), own_.back()->query, own_.back()->body, handler});
}

Result<OperationTable::Route> OperationTable::route(const std::string& method,
                                                    const std::string& path,
                                                    const std::string& version) const {
  const bool workspace_path = path.starts_with("/workspace/");
  const std::string plain = workspace_path ? path.substr(10) : path;
  Route best;
  std::size_t best_parameters = 0;
  bool path_exists = false;
  const auto consider = [&](const api::Operation& operation, const Entry* entry) {
    if (workspace_path && operation.product != "workspace") return;
    if (!version.empty() && operation.version != version && operation.product != "ebb") return;
    auto values = api::match_path(operation.path, plain);
    if (!values) return;
    path_exists = true;
    if (operation.method != method) return;
    const std::size_t parameters = values->size();
    if (best.operation != nullptr) {
      const std::size_t rank = rank_of(operation.product);
      const std::size_t best_rank = rank_of(best.operation->product);
      // First the product's order, then fewer parameters ("data" over {Id}), then one that is
      // served.
      if (rank > best_rank) return;
      if (rank == best_rank && parameters > best_parameters) return;
      if (rank == best_rank && parameters == best_parameters && entry == nullptr) return;
    }
    best = {entry, &operation, std::move(*values)};
    best_parameters = parameters;
  };
  for (const api::Operation& operation : api::Catalogue::instance().operations()) {
    consider(operation, nullptr);
  }
  for (const Entry& entry : entries_) consider(*entry.operation, &entry);
  if (best.operation != nullptr) return best;
  if (path_exists) {
    return Refusal{"MethodNotAllowed", method + " is not allowed for " + api::plain_text(path),
                   405};
  }
  return Refusal{"NotFound",
                 "no operation has the path " + api::plain_text(path.substr(0, 256)) +
                     (version.empty() ? "" : " in version " + api::plain_text(version)),
                 404};
}

Result<PageWanted> page_of(const Json& query, std::int64_t size_default) {
  Fields in(query);
  PageWanted page;
  page.number = in.whole("PageNumber", 1, 1, 1'000'000);
  page.size = in.whole("PageSize", size_default, 1, 500);
  if (in.refusal()) return *in.refusal();
  return page;
}

Result<bool> descending_of(const Json& query, const char* name, bool fallback) {
  std::string order = text_of(query, name);
  std::transform(order.begin(), order.end(), order.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (order.empty()) return fallback;
  if (order == "asc" || order == "desc") return order == "desc";
  return Refusal{"InvalidParameter",
                 std::string(name) + " is " + api::shown(query[name]) + "; asc or desc is allowed",
                 400};
}

std::string text_of(const Json& query, const char* name) {
  const auto it = query.find(name);
  return it == query.end() || !it->is_string() ? std::string{} : it->get<std::string>();
}

std::vector<std::string> list_of(const Json& query, const char* name) {
  return split_list(text_of(query, name));
}

Result<Ok> check_writable(const Desk& desk) {
  if (desk.writable()) return Ok{};
  return Refusal{"StoreFull",
                 "new work is refused: the disk of the store is full; running work goes on", 503};
}

std::map<std::string, std::string> workspace_names(const Projection& lists) {
  std::map<std::string, std::string> names;
  for (const auto& workspace : lists.workspaces()) {
    names[workspace.spec().id()] = workspace.spec().name();
  }
  return names;
}

std::map<std::string, std::string> quota_names(const Projection& lists) {
  std::map<std::string, std::string> names;
  for (const auto& quota : lists.quotas()) names[quota.spec().quota_id()] = quota.spec().name();
  return names;
}

}  // namespace ebb::gateway
