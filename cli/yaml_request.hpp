// Request bodies written as YAML: read by the API's types, so that a key which is no field is found
// with its line before anything is sent, and `STEPS: 1000` becomes a string where the API wants
// one.
//
// Errors: a refusal "FILE:LINE: ..." that names the key, its value and what is allowed.
#pragma once
#include <yaml-cpp/yaml.h>

#include <map>
#include <string>

#include "base/result.hpp"
#include "gateway/api/catalogue.hpp"

namespace ebb::cli {

using api::Json;

/// Fields that a file has beside those of the API's types: by type, then field -> type.
using ExtraFields = std::map<std::string, std::map<std::string, std::string>>;

class YamlRequest {
 public:
  YamlRequest(std::string file, std::string product, ExtraFields extras)
      : file_(std::move(file)), product_(std::move(product)), extras_(std::move(extras)) {}

  /// The document of a text; bounded in size, depth and number of values.
  static Result<YAML::Node> load(const std::string& text, const std::string& file);

  /// `node` as JSON of that type.
  Result<Json> read(const YAML::Node& node, const std::string& type) const;

 private:
  Json value(const YAML::Node& node, const std::string& type, const std::string& path,
             int depth) const;
  Json object(const YAML::Node& node, const std::string& type, const std::string& path,
              int depth) const;
  Json scalar(const YAML::Node& node, const std::string& type, const std::string& path) const;

  std::string file_;
  std::string product_;
  ExtraFields extras_;
};

/// "FILE:LINE: what"; lines count from 1.
Refusal yaml_refusal(const std::string& file, const YAML::Mark& mark, const std::string& what);
/// JSON as YAML text.
std::string yaml_text(const Json& json);
/// The content of a file, or "-" for standard input.
Result<std::string> read_input(const std::string& path);

}  // namespace ebb::cli
