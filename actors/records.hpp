// Conversions between what travels (ebb::v1) and what decisions use (ebb::scheduling).
#pragma once
#include <compare>
#include <string>
#include <tuple>

#include "ebb/v1/envelope.pb.h"
#include "scheduling/amount.hpp"

namespace ebb::actors {

scheduling::Amount amount_of(const v1::Amount& amount);
void set(v1::Amount* out, const scheduling::Amount& amount);
scheduling::Amounts amounts_of(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list);
void set(google::protobuf::RepeatedPtrField<v1::TypedAmount>* out,
         const scheduling::Amounts& amounts);

/// Sum over all pods of a need.
scheduling::Amount total_of(const v1::Need& need);
std::uint32_t pods_of(const v1::Need& need);

/// A claim as a key.
struct ClaimKey {
  std::string workload;
  std::uint32_t index = 0;
  friend auto operator<=>(const ClaimKey&, const ClaimKey&) = default;
};
ClaimKey key_of(const v1::Claim& claim);
v1::Claim claim_of(const ClaimKey& key);
/// "job/d1/0".
std::string text_of(const ClaimKey& key);

/// "16", "0.5": GPUs for sentences.
std::string gpus_text(scheduling::GpuMilli gpu_milli);

const char* name_of(v1::PreemptReason reason);
const char* name_of(v1::WaitCode code);
const char* name_of(v1::Product product);  // DLC, EAS, DSW

}  // namespace ebb::actors
