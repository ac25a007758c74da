// What the saved records say, kept in a form that can be checked after every step.
//
// It is fed each record as it becomes durable and marks what that touched. Units: thousandths of a
// GPU by node type. It believes nothing but records: no machine is asked.
#pragma once
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/records.hpp"
#include "ebb/v1/envelope.pb.h"

namespace ebb::sim {

inline constexpr std::size_t kTypesMost = 2;
using Units = std::array<std::int64_t, kTypesMost>;

struct EdgeBook {
  std::uint64_t epoch = 0;
  Units guarantee{}, given{}, returned_seen{};
  bool preempt = false;
};
struct ChargeBook {
  std::uint32_t attempt = 0;
  std::size_t type = 0;
  std::int64_t gpu_milli = 0;
};
struct QuotaBook {
  bool present = false;
  std::string parent;
  Units guarantee{}, holding{}, given_seen{}, returned{};
  std::uint64_t edge_epoch = 0;
  std::map<std::string, EdgeBook> children;
  std::map<actors::ClaimKey, ChargeBook> charges;
  Units used{};
  Units excess_before{};             // of a root that lost nodes: it may not grow
  std::vector<v1::QuotaSpec> specs;  // all it ever had, newest last
  bool scaled_with_preempt = false;  // at any time, by its parent
  Units booked() const;
};
struct PodBook {
  std::uint32_t attempt = 0, pod = 0;
  v1::PodState state = v1::POD_STATE_UNSPECIFIED;
  std::vector<std::pair<std::uint32_t, std::int64_t>> gpus;
  std::int64_t gpu_milli = 0;
  bool holds() const;
};
struct TableBook {  // of one claim on one node
  v1::ClaimClass claim_class = v1::CLAIM_CLASS_UNSPECIFIED;
  std::string quota;
  std::vector<PodBook> pods;
};
struct NodeBook {
  std::size_t type = 0;
  std::int64_t gpus = 0;
  bool cordoned = false;
  std::map<actors::ClaimKey, TableBook> tables;
};
struct ClaimBook {
  std::uint32_t attempt = 0;
  v1::ClaimPhase phase = v1::CLAIM_PHASE_UNSPECIFIED;
  v1::ClaimClass claim_class = v1::CLAIM_CLASS_UNSPECIFIED;
  bool committed = false, wanted = false;
  std::int64_t since_wall_ms = 0;
  std::size_t pods = 0;
  v1::PreemptReason leaving_for = v1::PREEMPT_REASON_UNSPECIFIED;
};
struct WorkloadBook {
  v1::WorkloadSpec spec;
  std::string status;
  bool stopping = false;
  std::set<int> priorities;  // all it ever had
  std::map<std::uint32_t, ClaimBook> claims;
};
/// A claim that is on its way out since this save.
struct Eviction {
  std::string workload;
  std::uint32_t index = 0, attempt = 0;
  v1::Preempt preempt;
  v1::ClaimClass claim_class = v1::CLAIM_CLASS_UNSPECIFIED;
};

class Books {
 public:
  explicit Books(std::vector<std::string> types) : types_(std::move(types)) {}
  void saved(const v1::Record& record);

  std::size_t type_index(const std::string& type) const;
  Units units_of(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list) const;

  std::map<std::string, QuotaBook> quotas;        // by id
  std::map<std::string, NodeBook> nodes;          // by name
  std::map<std::string, WorkloadBook> workloads;  // by address
  std::map<std::string, std::string> tokens;      // client token -> workload id

  std::set<std::string> touched_quotas, touched_nodes;
  std::vector<Eviction> evictions;          // new
  std::vector<std::string> contradictions;  // what a record says against an earlier one, "I2: ..."
  std::uint64_t comparisons = 0;            // made while reading

 private:
  void take_quota(const std::string& id, const v1::Record& record);
  void take_charge(const std::string& quota, const v1::Record& record);
  void take_table(const std::string& node, const v1::Record& record);
  void take_workload(const v1::Record& record);
  void take_tenant(const v1::Record& record);

  std::vector<std::string> types_;
};

}  // namespace ebb::sim
