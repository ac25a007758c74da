#include "actors/records.hpp"

#include <cstdlib>

namespace ebb::actors {

scheduling::Amount amount_of(const v1::Amount& amount) {
  return {amount.gpu_milli(), amount.cpu_milli(), amount.memory_bytes()};
}
void set(v1::Amount* out, const scheduling::Amount& amount) {
  out->set_gpu_milli(amount.gpu_milli);
  out->set_cpu_milli(amount.cpu_milli);
  out->set_memory_bytes(amount.memory_bytes);
}
scheduling::Amounts amounts_of(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list) {
  scheduling::Amounts amounts;
  for (const v1::TypedAmount& entry : list) amounts[entry.node_type()] += amount_of(entry.amount());
  return amounts;
}
void set(google::protobuf::RepeatedPtrField<v1::TypedAmount>* out,
         const scheduling::Amounts& amounts) {
  out->Clear();
  for (const auto& [type, amount] : amounts) {
    v1::TypedAmount* entry = out->Add();
    entry->set_node_type(type);
    set(entry->mutable_amount(), amount);
  }
}

scheduling::Amount total_of(const v1::Need& need) {
  scheduling::Amount sum;
  for (const v1::PodShape& shape : need.shapes()) sum += amount_of(shape.each()) * shape.pods();
  return sum;
}
std::uint32_t pods_of(const v1::Need& need) {
  std::uint32_t pods = 0;
  for (const v1::PodShape& shape : need.shapes()) pods += shape.pods();
  return pods;
}

ClaimKey key_of(const v1::Claim& claim) { return {claim.workload(), claim.index()}; }
v1::Claim claim_of(const ClaimKey& key) {
  v1::Claim claim;
  claim.set_workload(key.workload);
  claim.set_index(key.index);
  return claim;
}
std::string text_of(const ClaimKey& key) { return key.workload + "/" + std::to_string(key.index); }

std::string gpus_text(scheduling::GpuMilli gpu_milli) {
  std::string text = std::to_string(gpu_milli / 1000);
  const std::int64_t rest = std::llabs(gpu_milli % 1000);
  if (rest != 0) {
    std::string digits = std::to_string(1000 + rest).substr(1);
    while (digits.back() == '0') digits.pop_back();
    text += "." + digits;
  }
  return text;
}

const char* name_of(v1::PreemptReason reason) {
  switch (reason) {
    case v1::PREEMPT_REASON_IDLE_RECLAIMED:
      return "idle_reclaimed";
    case v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION:
      return "child_level_preemption";
    case v1::PREEMPT_REASON_SAME_LEVEL_PREEMPTION:
      return "same_level_preemption";
    case v1::PREEMPT_REASON_QUOTA_SCALED:
      return "quota_scaled";
    case v1::PREEMPT_REASON_NODE_DRAINED:
      return "node_drained";
    case v1::PREEMPT_REASON_NODE_LOST:
      return "node_lost";
    default:
      return "unspecified";
  }
}
const char* name_of(v1::WaitCode code) {
  switch (code) {
    case v1::WAIT_CODE_QUOTA:
      return "quota";
    case v1::WAIT_CODE_CAPACITY:
      return "capacity";
    case v1::WAIT_CODE_NODE:
      return "node";
    case v1::WAIT_CODE_ORDER:
      return "order";
    case v1::WAIT_CODE_VICTIMS:
      return "victims";
    default:
      return "unspecified";
  }
}
const char* name_of(v1::Product product) {
  switch (product) {
    case v1::PRODUCT_JOB:
      return "DLC";
    case v1::PRODUCT_SERVICE:
      return "EAS";
    case v1::PRODUCT_INSTANCE:
      return "DSW";
    default:
      return "unspecified";
  }
}
}  // namespace ebb::actors
