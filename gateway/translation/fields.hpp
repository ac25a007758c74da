// Reads one JSON object field by field and keeps the first refusal, so that a translation reads as
// a list of fields.
//
// A refusal names the field with its path, its value and what is allowed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "gateway/api/json.hpp"

namespace ebb::gateway {

using api::Json;

class Fields {
 public:
  /// `object` must outlive the reader. `path`: where it stands in the request, empty for the body
  /// itself.
  explicit Fields(const Json& object, std::string path = "")
      : object_(object), path_(std::move(path)) {}

  bool has(const char* name) const;
  const Json& get(const char* name) const;  // null if absent

  std::string text(const char* name, std::size_t size_max = 1'024);
  std::string required_text(const char* name, std::size_t size_max = 1'024);
  /// Letters, digits, `_ . -`, first one a letter or digit.
  std::string name(const char* name, std::size_t size_min, std::size_t size_max);
  std::int64_t whole(const char* name, std::int64_t fallback, std::int64_t min, std::int64_t max);
  bool flag(const char* name, bool fallback);
  std::string one_of(const char* name, const char* fallback,
                     const std::vector<std::string>& allowed);
  std::int64_t gpu_milli(const char* name);
  std::int64_t cpu_milli(const char* name);
  std::int64_t memory_bytes(const char* name);

  void refuse(const char* name, const std::string& allowed);
  void refuse(Refusal refusal);
  /// Takes over the refusal of a reader of something below.
  void join(const Fields& below);
  const std::optional<Refusal>& refusal() const { return refusal_; }
  std::string path_of(const char* name) const;

 private:
  std::int64_t amount(const char* name, std::optional<std::int64_t> (*parse)(std::string_view),
                      const char* allowed);
  const Json& object_;
  std::string path_;
  std::optional<Refusal> refusal_;
};

}  // namespace ebb::gateway
