// Small things that all translations write the same way.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/common.pb.h"
#include "gateway/api/json.hpp"
#include "gateway/translation/fields.hpp"
#include "scheduling/amount.hpp"

namespace ebb::gateway {

/// RFC 3339 in UTC, seconds; empty text for 0.
std::string time_text(std::int64_t wall_ms);
/// The other way; null if it is not such a time.
std::optional<std::int64_t> time_of_text(const std::string& text);

/// {"CPU","GPU","GPUType","Memory"} as ResourceAmount.
Json amount_json(const scheduling::Amount& amount, const std::string& gpu_type = "");

const char* product_name(v1::Product product);  // DLC, EAS, DSW
/// Reads a list of product names.
std::vector<v1::Product> products_of(Fields& in, const char* name);

/// ForbiddenQuotaOverSold, AcceptQuotaOverSold, ForceQuotaOverSold.
v1::IdleMode idle_mode_of(Fields& in, const char* name);
const char* idle_mode_name(v1::IdleMode mode);

/// "job/dlc1" -> "dlc1".
std::string id_of_address(const std::string& address);
/// "dlc..." -> "job/dlc...": the address of a workload by its id; empty for another id.
std::string address_of_workload(const std::string& id);
std::string address_of_workload(v1::Product product, const std::string& id);

/// Comma-separated values, trimmed, empty ones left out.
std::vector<std::string> split_list(const std::string& text);
/// Reads a list of strings.
std::vector<std::string> text_list(Fields& in, const char* name);

Refusal not_found(const std::string& what, const std::string& id);

}  // namespace ebb::gateway
