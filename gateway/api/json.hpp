// JSON as the API takes it: bounded depth, no key twice, UTF-8.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace ebb::api {

using Json = nlohmann::json;

inline constexpr int kJsonDepthMax = 32;  // RELIABILITY 4.6

/// The document, or the refusal `InvalidJson` with position or key.
Result<Json> parse_json(std::string_view text);

/// A value as a refusal shows it: JSON, at most 64 bytes, without control characters.
std::string shown(const Json& value);

/// Text without control characters and terminal escape sequences; bytes that are not UTF-8 become
/// '?'.
std::string plain_text(std::string_view text);

}  // namespace ebb::api
