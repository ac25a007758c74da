// What lists are read from: an in-memory SQLite database that follows the store's watch.
//
// A change that the store has told of is seen by every read that begins afterwards: what was told
// is kept by key and written before the next read. Reads may be some milliseconds behind an actor;
// a single object is asked of its actor. Errors: none from outside; a broken record is skipped. SQL
// that fails is a mistake of ours and ends the program.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/store/store.hpp"
#include "ebb/v1/quota.pb.h"
#include "ebb/v1/tenant.pb.h"
#include "ebb/v1/workload.pb.h"

namespace ebb::gateway {

/// One page of a list, and how many there are in all.
template <class T>
struct Page {
  std::vector<T> items;
  std::int64_t total = 0;
};

struct PageWanted {
  std::int64_t number = 1;  // from 1
  std::int64_t size = 20;
};

/// Empty lists and texts filter nothing.
struct WorkloadFilter {
  v1::Product product = v1::PRODUCT_UNSPECIFIED;
  std::vector<std::string> ids, quota_ids, workspace_ids, statuses, users, job_types;
  std::string name;  // part of the name
  bool whole_name = false;
  std::optional<bool> uses_idle;
  std::optional<bool> is_private;
  std::optional<bool> has_cron;
  std::optional<std::int64_t> created_from_ms, created_to_ms;
  std::string sort = "created";  // created, name, status, priority, finished, gpu
  bool descending = true;
};

class Projection {
 public:
  explicit Projection(cluster::Store& store);
  ~Projection();
  Projection(const Projection&) = delete;

  Page<v1::WorkloadRecord> workloads(const WorkloadFilter& filter, PageWanted page) const;
  std::optional<v1::WorkloadRecord> workload(const std::string& address) const;
  /// All quotas, in order of creation (parents before children).
  std::vector<v1::QuotaRecord> quotas() const;
  std::optional<v1::QuotaRecord> quota(const std::string& id) const;
  std::vector<v1::WorkspaceRecord> workspaces() const;
  std::optional<v1::WorkspaceRecord> workspace(const std::string& id) const;
  v1::TenantRecord tenant() const;

 private:
  class Database;
  std::unique_ptr<Database> database_;
  std::shared_ptr<void> watch_;
};

}  // namespace ebb::gateway
