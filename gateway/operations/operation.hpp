// The operations: one table, each entry an operation of the catalogue, the fields of it that Ebb
// supports, and the function that carries it out.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "gateway/api/catalogue.hpp"
#include "gateway/desk.hpp"
#include "gateway/task.hpp"

namespace ebb::gateway {

using api::Json;

inline constexpr std::size_t kBodyBytesMax = 1'048'576;  // RELIABILITY 4.6

/// A request that is authenticated, routed, and has only fields that are known, supported and of
/// the right JSON type.
struct Call {
  std::map<std::string, std::string> path;
  Json query = Json::object();
  Json body = Json::object();
  std::string user;          // who asks
  std::string client_token;  // the same token never makes two; may be empty
};

using Handler = Task<Result<Json>> (*)(Desk&, Call);

struct Entry {
  const api::Operation* operation;
  api::Supported query;
  api::Supported body;
  Handler handler;
  std::size_t body_bytes_max = kBodyBytesMax;
};

class OperationTable {
 public:
  OperationTable();  // all that Ebb serves

  struct Route {
    const Entry* entry = nullptr;  // null: a known operation that Ebb does not serve
    const api::Operation* operation = nullptr;
    std::map<std::string, std::string> path;
  };
  /// The operation of a request, or 404 / 405. `version`: header x-acs-version, may be empty.
  Result<Route> route(const std::string& method, const std::string& path,
                      const std::string& version) const;
  const std::vector<Entry>& entries() const { return entries_; }

  void add(const char* product, const char* name, api::Supported query, api::Supported body,
           Handler handler, std::size_t body_bytes_max = kBodyBytesMax);
  void add_own(api::Operation operation, Handler handler);

 private:
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<api::Operation>> own_;
};

void add_quota_operations(OperationTable& table);
void add_node_operations(OperationTable& table);
void add_workspace_operations(OperationTable& table);
void add_job_operations(OperationTable& table);
void add_service_operations(OperationTable& table);
void add_instance_operations(OperationTable& table);
void add_ebb_operations(OperationTable& table);

// Shared by the handlers.

/// PageNumber and PageSize of a query, checked.
Result<PageWanted> page_of(const Json& query, std::int64_t size_default = 20);
/// Asc or desc of a query; null text: descending.
Result<bool> descending_of(const Json& query, const char* name = "Order", bool fallback = true);
/// The part of a list that a page shows.
template <class T>
std::vector<T> page_part(std::vector<T> all, PageWanted page) {
  const auto size = static_cast<std::int64_t>(all.size());
  const std::int64_t first = std::min(size, (page.number - 1) * page.size);
  const std::int64_t last = std::min(size, first + page.size);
  return {std::make_move_iterator(all.begin() + first),
          std::make_move_iterator(all.begin() + last)};
}
std::string text_of(const Json& query, const char* name);
std::vector<std::string> list_of(const Json& query, const char* name);
/// Refused while the store has no room (503).
Result<Ok> check_writable(const Desk& desk);
std::map<std::string, std::string> workspace_names(const Projection& lists);
std::map<std::string, std::string> quota_names(const Projection& lists);

}  // namespace ebb::gateway
