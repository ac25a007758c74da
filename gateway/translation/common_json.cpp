#include "gateway/translation/common_json.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "base/nearest.hpp"
#include "gateway/translation/amount_text.hpp"

namespace ebb::gateway {

std::string time_text(std::int64_t wall_ms) {
  if (wall_ms <= 0) return {};
  const std::time_t seconds = wall_ms / 1'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::optional<std::int64_t> time_of_text(const std::string& text) {
  std::tm parts{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) return std::nullopt;
  std::int64_t millis = 0;
  if (*end == '.') {
    int digits = 0;
    for (++end; *end >= '0' && *end <= '9'; ++end, ++digits) {
      if (digits < 3) millis = millis * 10 + (*end - '0');
    }
    if (digits == 0 || digits > 9) return std::nullopt;
    for (; digits < 3; ++digits) millis *= 10;
  }
  std::int64_t offset_s = 0;
  if (*end == '+' || *end == '-') {
    int hours = 0;
    int minutes = 0;
    int used = 0;
    if (std::sscanf(end + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || end[1 + used] != '\0') {
      return std::nullopt;
    }
    offset_s = (hours * 60 + minutes) * 60 * (*end == '+' ? 1 : -1);
  } else if (std::string(end) != "Z") {
    return std::nullopt;
  }
  return (static_cast<std::int64_t>(timegm(&parts)) - offset_s) * 1'000 + millis;
}

Json amount_json(const scheduling::Amount& amount, const std::string& gpu_type) {
  Json out = {{"CPU", text_of_milli(amount.cpu_milli)},
              {"GPU", text_of_milli(amount.gpu_milli)},
              {"Memory", text_of_bytes(amount.memory_bytes)}};
  if (!gpu_type.empty()) out["GPUType"] = gpu_type;
  return out;
}

const char* product_name(v1::Product product) {
  switch (product) {
    case v1::PRODUCT_JOB:
      return "DLC";
    case v1::PRODUCT_SERVICE:
      return "EAS";
    case v1::PRODUCT_INSTANCE:
      return "DSW";
    default:
      return "";
  }
}

std::vector<v1::Product> products_of(Fields& in, const char* name) {
  std::vector<v1::Product> products;
  for (const std::string& text : text_list(in, name)) {
    if (text == "DLC") {
      products.push_back(v1::PRODUCT_JOB);
    } else if (text == "EAS") {
      products.push_back(v1::PRODUCT_SERVICE);
    } else if (text == "DSW") {
      products.push_back(v1::PRODUCT_INSTANCE);
    } else {
      in.refuse(name, "DLC, EAS and DSW are allowed" + did_you_mean(text, {"DLC", "EAS", "DSW"}));
    }
  }
  return products;
}

v1::IdleMode idle_mode_of(Fields& in, const char* name) {
  const std::string mode =
      in.one_of(name, "ForbiddenQuotaOverSold",
                {"ForbiddenQuotaOverSold", "AcceptQuotaOverSold", "ForceQuotaOverSold"});
  if (mode == "AcceptQuotaOverSold") return v1::IDLE_MODE_ACCEPTED;
  return mode == "ForceQuotaOverSold" ? v1::IDLE_MODE_ONLY : v1::IDLE_MODE_FORBIDDEN;
}

const char* idle_mode_name(v1::IdleMode mode) {
  switch (mode) {
    case v1::IDLE_MODE_ACCEPTED:
      return "AcceptQuotaOverSold";
    case v1::IDLE_MODE_ONLY:
      return "ForceQuotaOverSold";
    default:
      return "ForbiddenQuotaOverSold";
  }
}

std::string id_of_address(const std::string& address) {
  const auto slash = address.find('/');
  return slash == std::string::npos ? address : address.substr(slash + 1);
}

std::string address_of_workload(const std::string& id) {
  if (id.find_first_of("/#") != std::string::npos) return {};
  if (id.starts_with("dlc")) return "job/" + id;
  if (id.starts_with("eas-")) return "service/" + id;
  if (id.starts_with("dsw-")) return "instance/" + id;
  return {};
}

std::string address_of_workload(v1::Product product, const std::string& id) {
  switch (product) {
    case v1::PRODUCT_JOB:
      return "job/" + id;
    case v1::PRODUCT_SERVICE:
      return "service/" + id;
    default:
      return "instance/" + id;
  }
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::string part;
  const auto finish = [&] {
    const auto first = part.find_first_not_of(' ');
    if (first != std::string::npos) {
      parts.push_back(part.substr(first, part.find_last_not_of(' ') - first + 1));
    }
    part.clear();
  };
  for (const char c : text) {
    if (c == ',') {
      finish();
    } else {
      part.push_back(c);
    }
  }
  finish();
  return parts;
}

std::vector<std::string> text_list(Fields& in, const char* name) {
  std::vector<std::string> texts;
  const Json& list = in.get(name);
  if (list.is_null()) return texts;
  if (!list.is_array() || list.size() > 1'000) {
    in.refuse(name, "a list of at most 1000 strings is expected");
    return texts;
  }
  for (const Json& one : list) {
    if (!one.is_string()) {
      in.refuse(name, "a list of strings is expected");
      return texts;
    }
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

Refusal not_found(const std::string& what, const std::string& id) {
  return {"NotFound", "there is no " + what + " " + api::shown(id), 404};
}

}  // namespace ebb::gateway
