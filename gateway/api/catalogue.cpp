#include "gateway/api/catalogue.hpp"

#include <algorithm>
#include <charconv>

#include "base/assert.hpp"
#include "base/nearest.hpp"

namespace ebb::api {

extern const char* const kApiDocument;

namespace {

std::vector<std::string> strings(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? std::vector<std::string>{} : it->get<std::vector<std::string>>();
}

bool covers(const std::string& listed, std::string_view path) {
  return path == listed ||
         (path.size() > listed.size() && path.starts_with(listed) && path[listed.size()] == '.');
}

/// Whether `path` or something below it is supported.
bool leads_to_supported(const Supported& supported, std::string_view path) {
  return std::any_of(supported.begin(), supported.end(), [&](const std::string& listed) {
    return covers(listed, path) || covers(std::string(path), listed);
  });
}

class Check {
 public:
  Check(const Catalogue& catalogue, const Operation& operation, const Supported& supported)
      : catalogue_(catalogue), operation_(operation), supported_(supported) {}

  /// `path` for people ("JobSpecs[0].Type"), `plain` without indexes.
  std::optional<Refusal> value(const std::string& type, const Json& json, const std::string& path,
                               const std::string& plain) const {
    if (type == "any" || json.is_null()) return {};
    if (type.starts_with("[")) {
      if (!json.is_array()) return mismatch(path, json, "a list");
      const std::string inner = type.substr(1, type.size() - 2);
      for (std::size_t i = 0; i < json.size(); ++i) {
        auto fault = value(inner, json[i], path + "[" + std::to_string(i) + "]", plain);
        if (fault) return fault;
      }
      return {};
    }
    if (type.starts_with("map<")) {
      if (!json.is_object()) return mismatch(path, json, "an object");
      if (type != "map<string,string>") return {};
      for (const auto& [key, inner] : json.items()) {
        if (!inner.is_string()) return mismatch(path + "." + key, inner, "a string");
      }
      return {};
    }
    if (type == "string") {
      if (json.is_string()) return {};
      const auto dot = plain.rfind('.');
      const std::string field = dot == std::string::npos ? plain : plain.substr(dot + 1);
      if (json.is_number() && is_amount_field(field)) return {};
      return mismatch(path, json, "a string");
    }
    if (type == "number") {
      return json.is_number() ? std::nullopt : mismatch(path, json, "a number");
    }
    if (type == "boolean") {
      return json.is_boolean() ? std::nullopt : mismatch(path, json, "true or false");
    }
    const auto* fields = catalogue_.fields(operation_.product, type);
    if (fields == nullptr) return {};
    return object(*fields, json, path, plain);
  }

  std::optional<Refusal> object(const std::map<std::string, std::string>& fields, const Json& json,
                                const std::string& path, const std::string& plain) const {
    if (!json.is_object()) {
      return mismatch(path.empty() ? "the body" : path, json, "an object");
    }
    for (const auto& [name, inner] : json.items()) {
      const std::string below = path.empty() ? name : path + "." + name;
      const std::string below_plain = plain.empty() ? name : plain + "." + name;
      const auto field = fields.find(name);
      if (field == fields.end()) return unknown(below, name, fields);
      if (inner.is_null()) continue;
      if (!leads_to_supported(supported_, below_plain)) return unsupported(below);
      if (auto fault = value(field->second, inner, below, below_plain)) return fault;
    }
    return {};
  }

  Refusal unknown(const std::string& path, const std::string& name,
                  const std::map<std::string, std::string>& fields) const {
    std::vector<std::string> known;
    for (const auto& entry : fields) known.push_back(entry.first);
    return {
        "InvalidParameter",
        plain_text(path) + " is not a parameter of " + operation_.name + did_you_mean(name, known),
        400};
  }
  Refusal unsupported(const std::string& path) const {
    return {"UnsupportedParameter",
            plain_text(path) + " of " + operation_.name + " is not supported by Ebb; leave it out",
            400};
  }

 private:
  static std::optional<Refusal> mismatch(const std::string& path, const Json& json,
                                         const char* wanted) {
    return Refusal{"InvalidParameter",
                   plain_text(path) + " is " + shown(json) + "; " + wanted + " is expected", 400};
  }
  const Catalogue& catalogue_;
  const Operation& operation_;
  const Supported& supported_;
};

}  // namespace

Catalogue::Catalogue() {
  const Json document = Json::parse(kApiDocument);
  for (const auto& [product, content] : document.items()) {
    for (const auto& [name, operation] : content["operations"].items()) {
      operations_.push_back({.product = product,
                             .version = content["version"],
                             .name = name,
                             .method = operation["method"],
                             .path = operation["path"],
                             .query = strings(operation, "query"),
                             .body = strings(operation, "body"),
                             .request_type = operation.value("request_type", ""),
                             .response_type = operation.value("response_type", ""),
                             .body_type = operation.value("body_type", "")});
    }
    for (const auto& [type, fields] : content["types"].items()) {
      types_[product][type] = fields.get<std::map<std::string, std::string>>();
    }
  }
}

const Catalogue& Catalogue::instance() {
  static const Catalogue catalogue;
  return catalogue;
}

Operation Catalogue::own(std::string name, std::string method, std::string path,
                         std::vector<std::string> query) {
  Operation operation;
  operation.product = "ebb";
  operation.name = std::move(name);
  operation.method = std::move(method);
  operation.path = std::move(path);
  operation.query = std::move(query);
  return operation;
}

const Operation* Catalogue::find(std::string_view product, std::string_view name) const {
  const auto it = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& o) {
    return o.product == product && o.name == name;
  });
  return it == operations_.end() ? nullptr : &*it;
}

const std::map<std::string, std::string>* Catalogue::fields(std::string_view product,
                                                            std::string_view type) const {
  const auto types = types_.find(product);
  if (types == types_.end()) return nullptr;
  const auto it = types->second.find(std::string(type));
  return it == types->second.end() ? nullptr : &it->second;
}

Result<Ok> Catalogue::check_body(const Operation& operation, const Json& body,
                                 const Supported& supported) const {
  const Check check(*this, operation, supported);
  std::map<std::string, std::string> fields;
  if (const auto* all =
          this->fields(operation.product, operation.body_type.empty() ? operation.request_type
                                                                      : operation.body_type)) {
    for (const auto& [name, type] : *all) {
      const bool in_body =
          !operation.body_type.empty() ||
          std::find(operation.body.begin(), operation.body.end(), name) != operation.body.end();
      if (in_body) fields.emplace(name, type);
    }
  } else {
    for (const std::string& name : operation.body) fields.emplace(name, "any");
  }
  if (auto fault = check.object(fields, body, "", "")) return *fault;
  return Ok{};
}

Result<Json> Catalogue::check_query(const Operation& operation,
                                    const std::vector<std::pair<std::string, std::string>>& query,
                                    const Supported& supported) const {
  const Check check(*this, operation, supported);
  const auto* types = fields(operation.product, operation.request_type);
  std::map<std::string, std::string> known;
  for (const std::string& name : operation.query) {
    const bool typed = types != nullptr && types->contains(name);
    known.emplace(name, typed ? types->at(name) : "string");
  }
  Json values = Json::object();
  for (const auto& [name, text] : query) {
    const auto field = known.find(name);
    if (field == known.end()) return check.unknown(name, name, known);
    if (!leads_to_supported(supported, name)) return check.unsupported(name);
    if (values.contains(name)) {
      return Refusal{"InvalidParameter", name + " comes twice in the query", 400};
    }
    if (field->second == "number") {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc{} || end != text.data() + text.size()) {
        return Refusal{"InvalidParameter", name + " is " + shown(text) + "; a number is expected",
                       400};
      }
      values[name] = number;
    } else if (field->second == "boolean") {
      if (text != "true" && text != "false") {
        return Refusal{"InvalidParameter",
                       name + " is " + shown(text) + "; true or false is expected", 400};
      }
      values[name] = text == "true";
    } else {
      values[name] = text;
    }
  }
  return values;
}

bool is_amount_field(std::string_view field) {
  return field == "GPU" || field == "CPU" || field == "Memory" || field == "SharedMemory";
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out.push_back(' ');
    } else if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      unsigned value = 0;
      const auto [end, error] = std::from_chars(&text[i + 1], &text[i + 1] + 2, value, 16);
      if (error != std::errc{} || end != &text[i + 1] + 2) return std::nullopt;
      out.push_back(static_cast<char>(value));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

std::optional<std::map<std::string, std::string>> match_path(std::string_view pattern,
                                                             std::string_view path) {
  std::map<std::string, std::string> values;
  const auto trim = [](std::string_view& text) {
    while (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
  };
  trim(pattern);
  trim(path);
  while (!pattern.empty() && !path.empty()) {
    if (pattern.front() != '/' || path.front() != '/') return std::nullopt;
    const std::string_view wanted = pattern.substr(1, pattern.find('/', 1) - 1);
    const std::string_view given = path.substr(1, path.find('/', 1) - 1);
    if (wanted.starts_with('{')) {
      auto value = percent_decoded(given, false);
      if (!value || value->empty()) return std::nullopt;
      values.emplace(wanted.substr(1, wanted.size() - 2), std::move(*value));
    } else if (wanted != given) {
      return std::nullopt;
    }
    pattern.remove_prefix(wanted.size() + 1);
    path.remove_prefix(given.size() + 1);
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return values;
}

}  // namespace ebb::api
