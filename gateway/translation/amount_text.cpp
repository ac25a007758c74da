#include "gateway/translation/amount_text.hpp"

#include <array>
#include <charconv>

namespace ebb::gateway {
namespace {

/// "12.345" * unit, exactly; null if malformed, too large or not a whole number of units.
std::optional<std::int64_t> scaled(std::string_view text, __int128 unit, std::int64_t at_most) {
  __int128 value = 0;
  __int128 divisor = 1;
  bool after_point = false;
  int digits = 0;
  for (const char c : text) {
    if (c == '.') {
      if (after_point || digits == 0) return std::nullopt;
      after_point = true;
      continue;
    }
    if (c < '0' || c > '9' || ++digits > 20) return std::nullopt;
    value = value * 10 + (c - '0');
    if (after_point) divisor *= 10;
  }
  if (digits == 0 || text.back() == '.') return std::nullopt;
  const __int128 product = value * unit;
  if (product % divisor != 0) return std::nullopt;
  const __int128 result = product / divisor;
  if (result > at_most) return std::nullopt;
  return static_cast<std::int64_t>(result);
}

struct Unit {
  std::string_view suffix;
  std::int64_t bytes;
};
constexpr std::array<Unit, 11> kUnits = {{{"Ki", std::int64_t{1} << 10},
                                          {"Mi", std::int64_t{1} << 20},
                                          {"Gi", std::int64_t{1} << 30},
                                          {"Ti", std::int64_t{1} << 40},
                                          {"Pi", std::int64_t{1} << 50},
                                          {"k", 1'000},
                                          {"K", 1'000},
                                          {"M", 1'000'000},
                                          {"G", 1'000'000'000},
                                          {"T", 1'000'000'000'000},
                                          {"P", 1'000'000'000'000'000}}};

}  // namespace

std::optional<std::int64_t> milli_of_text(std::string_view text, std::int64_t at_most) {
  return scaled(text, 1'000, at_most);
}

std::optional<std::int64_t> cpu_milli_of_text(std::string_view text) {
  if (text.ends_with('m')) {
    text.remove_suffix(1);
    return scaled(text, 1, kCpuMilliMax);
  }
  return scaled(text, 1'000, kCpuMilliMax);
}

std::optional<std::int64_t> bytes_of_text(std::string_view text) {
  for (const Unit& unit : kUnits) {
    if (!text.ends_with(unit.suffix)) continue;
    text.remove_suffix(unit.suffix.size());
    return scaled(text, unit.bytes, kMemoryBytesMax);
  }
  return scaled(text, 1, kMemoryBytesMax);
}

std::optional<std::string> amount_text(const api::Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  return std::nullopt;
}

std::string text_of_milli(std::int64_t milli) {
  std::string text = milli < 0 ? "-" : "";
  const auto size = static_cast<std::uint64_t>(milli < 0 ? -milli : milli);
  text += std::to_string(size / 1'000);
  std::uint64_t rest = size % 1'000;
  if (rest == 0) return text;
  std::string decimals = std::to_string(1'000 + rest).substr(1);
  while (decimals.back() == '0') decimals.pop_back();
  return text + "." + decimals;
}

std::string text_of_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 4> kNames = {"", "Ki", "Mi", "Gi"};
  std::size_t step = 0;
  while (bytes != 0 && bytes % 1'024 == 0 && step + 1 < kNames.size()) {
    bytes /= 1'024;
    ++step;
  }
  return std::to_string(bytes) + kNames[step];
}

}  // namespace ebb::gateway
