// Amounts as the API writes them, to and from our integers: GPU and CPU in thousandths, memory in
// bytes.
//
// Text: GPU "8" or "0.5" (at most three decimals); CPU "8", "0.5" or "500m"; memory "64Gi",
// "512Mi", "1.5Gi", "1G", or bytes. Errors: null for text that is not such an amount or is beyond
// the bounds below. Nothing is rounded.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/api/json.hpp"

namespace ebb::gateway {

inline constexpr std::int64_t kGpuMilliMax = 1'000'000'000;    // a million GPUs
inline constexpr std::int64_t kCpuMilliMax = 100'000'000'000;  // a hundred million cores
inline constexpr std::int64_t kMemoryBytesMax = std::int64_t{1} << 56;

std::optional<std::int64_t> milli_of_text(std::string_view text, std::int64_t at_most);
std::optional<std::int64_t> cpu_milli_of_text(std::string_view text);
std::optional<std::int64_t> bytes_of_text(std::string_view text);

/// A JSON string or number as text ("8", "0.5"); null for anything else. A number keeps its digits.
std::optional<std::string> amount_text(const api::Json& value);

std::string text_of_milli(std::int64_t milli);  // 500 -> "0.5"
std::string text_of_bytes(std::int64_t bytes);  // 68719476736 -> "64Gi"

}  // namespace ebb::gateway
