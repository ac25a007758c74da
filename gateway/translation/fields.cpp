#include "gateway/translation/fields.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/nearest.hpp"
#include "gateway/translation/amount_text.hpp"

namespace ebb::gateway {
namespace {

const Json kNull;

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::optional<std::int64_t> gpu_of_text(std::string_view text) {
  return milli_of_text(text, kGpuMilliMax);
}

}  // namespace

const Json& Fields::get(const char* name) const {
  const auto it = object_.find(name);
  return it == object_.end() ? kNull : *it;
}

bool Fields::has(const char* name) const { return !get(name).is_null(); }

std::string Fields::path_of(const char* name) const {
  return path_.empty() ? name : path_ + "." + name;
}

void Fields::refuse(Refusal refusal) {
  if (!refusal_) refusal_ = std::move(refusal);
}

void Fields::refuse(const char* name, const std::string& allowed) {
  refuse(Refusal{"InvalidParameter",
                 path_of(name) +
                     (has(name) ? " is " + api::shown(get(name)) + "; " : " is missing; ") +
                     allowed,
                 400});
}

void Fields::join(const Fields& below) {
  if (below.refusal_) refuse(*below.refusal_);
}

std::string Fields::text(const char* name, std::size_t size_max) {
  const Json& value = get(name);
  if (value.is_null()) return {};
  if (!value.is_string()) {
    refuse(name, "a string is expected");
    return {};
  }
  auto text = value.get<std::string>();
  if (text.size() > size_max || text.find('\0') != std::string::npos) {
    refuse(name, "at most " + std::to_string(size_max) + " bytes without NUL are allowed");
    return {};
  }
  return text;
}

std::string Fields::required_text(const char* name, std::size_t size_max) {
  std::string value = text(name, size_max);
  if (value.empty()) refuse(name, "it must be given");
  return value;
}

std::string Fields::name(const char* name, std::size_t size_min, std::size_t size_max) {
  std::string value = text(name, 1'024);
  const bool right =
      value.size() >= size_min && value.size() <= size_max && is_name_letter(value[0]) &&
      std::all_of(value.begin(), value.end(),
                  [](char c) { return is_name_letter(c) || c == '_' || c == '.' || c == '-'; });
  if (!right) {
    refuse(name, std::to_string(size_min) + " to " + std::to_string(size_max) +
                     " letters, digits, `_ . -` are allowed, a letter or digit first");
  }
  return value;
}

std::int64_t Fields::whole(const char* name, std::int64_t fallback, std::int64_t min,
                           std::int64_t max) {
  const Json& value = get(name);
  if (value.is_null()) return fallback;
  bool right = false;
  std::int64_t number = fallback;
  if (value.is_number_unsigned()) {
    const auto given = value.get<std::uint64_t>();
    right = max >= 0 && given <= static_cast<std::uint64_t>(max) &&
            static_cast<std::int64_t>(given) >= min;
    if (right) number = static_cast<std::int64_t>(given);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
    right = number >= min && number <= max;
  } else if (value.is_number_float()) {
    const auto given = value.get<double>();
    right = std::floor(given) == given && given >= static_cast<double>(min) &&
            given <= static_cast<double>(max);
    if (right) number = static_cast<std::int64_t>(given);
  }
  if (!right) {
    refuse(name, "a whole number from " + std::to_string(min) + " to " + std::to_string(max) +
                     " is allowed");
    return fallback;
  }
  return number;
}

bool Fields::flag(const char* name, bool fallback) {
  const Json& value = get(name);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) {
    refuse(name, "true or false is expected");
    return fallback;
  }
  return value.get<bool>();
}

std::string Fields::one_of(const char* name, const char* fallback,
                           const std::vector<std::string>& allowed) {
  const std::string value = text(name);
  if (!has(name)) return fallback;
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return value;
  std::string list;
  for (const std::string& one : allowed) list += (list.empty() ? "" : ", ") + one;
  refuse(name, "allowed: " + list + did_you_mean(value, allowed));
  return fallback;
}

std::int64_t Fields::amount(const char* name,
                            std::optional<std::int64_t> (*parse)(std::string_view),
                            const char* allowed) {
  if (!has(name)) return 0;
  const auto text = amount_text(get(name));
  const auto value = text ? parse(*text) : std::nullopt;
  if (!value) {
    refuse(name, allowed);
    return 0;
  }
  return *value;
}

std::int64_t Fields::gpu_milli(const char* name) {
  return amount(name, gpu_of_text, "0 to 1000000 GPUs with at most three decimals are allowed");
}
std::int64_t Fields::cpu_milli(const char* name) {
  return amount(name, cpu_milli_of_text, "cores such as \"8\", \"0.5\" or \"500m\" are allowed");
}
std::int64_t Fields::memory_bytes(const char* name) {
  return amount(name, bytes_of_text, "memory such as \"64Gi\", \"512Mi\" or bytes is allowed");
}

}  // namespace ebb::gateway
