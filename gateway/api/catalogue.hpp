// The API as data: every operation of the five products with its path, parameters and types
// (pai_api.json, which also holds the few fields that are Ebb's own). From it come the routes, and
// the checks that no field is dropped in silence: an unknown one is refused with the nearest known
// name, a known one that Ebb does not support is refused by name.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "gateway/api/json.hpp"

namespace ebb::api {

struct Operation {
  std::string product;  // dlc, studio, eas, dsw, workspace, ebb
  std::string version;  // value of x-acs-version; empty for Ebb's own
  std::string name;
  std::string method;
  std::string path;                // /api/v1/jobs/{JobId}
  std::vector<std::string> query;  // names allowed in the query
  std::vector<std::string> body;   // names allowed at the top of the JSON body
  std::string request_type;
  std::string response_type;
  std::string body_type;  // where the body is one document of its own (services)
};

/// Fields that are supported, as dotted paths without list indexes: "Min.NodeSpecs.Type". A path
/// stands for everything below it.
using Supported = std::vector<std::string>;

class Catalogue {
 public:
  static const Catalogue& instance();

  const std::vector<Operation>& operations() const { return operations_; }
  const Operation* find(std::string_view product, std::string_view name) const;
  /// Fields of a type; null if it has none (a scalar, a map, an unknown type).
  const std::map<std::string, std::string>* fields(std::string_view product,
                                                   std::string_view type) const;

  /// Checks names and JSON types of a body against `type`, and against what is supported.
  Result<Ok> check_body(const Operation& operation, const Json& body,
                        const Supported& supported) const;
  /// The query as JSON values of the declared types.
  Result<Json> check_query(const Operation& operation,
                           const std::vector<std::pair<std::string, std::string>>& query,
                           const Supported& supported) const;

  /// Adds one of Ebb's own operations (under /ebb/v1/). Only while the table of operations is
  /// built.
  static Operation own(std::string name, std::string method, std::string path,
                       std::vector<std::string> query);

 private:
  Catalogue();
  std::vector<Operation> operations_;
  std::map<std::string, std::map<std::string, std::map<std::string, std::string>>, std::less<>>
      types_;
};

/// True where `field` takes an amount: a number is then as good as a string ("8" or 8).
bool is_amount_field(std::string_view field);

/// Matches a path against a pattern with {Name} parts; a trailing slash does not matter. Values
/// come percent-decoded.
std::optional<std::map<std::string, std::string>> match_path(std::string_view pattern,
                                                             std::string_view path);
/// Percent-decoding; null if malformed.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space);

}  // namespace ebb::api
