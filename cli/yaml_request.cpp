#include "cli/yaml_request.hpp"

#include <fstream>
#include <iostream>
#include <iterator>
#include <set>

#include "base/nearest.hpp"

namespace ebb::cli {
namespace {

constexpr std::size_t kFileBytesMax = 1'048'576;
constexpr int kDepthMax = api::kJsonDepthMax;
constexpr std::size_t kValuesMax = 100'000;

/// Carries a refusal out of the recursion; caught in read().
struct Refused {
  Refusal refusal;
};

/// Counts with aliases expanded, so that a small file cannot become a huge request.
void check_size(const YAML::Node& node, const std::string& file, int depth, std::size_t& values) {
  if (++values > kValuesMax)
    throw Refused{yaml_refusal(file, node.Mark(), "more than 100000 values")};
  if (depth > kDepthMax) throw Refused{yaml_refusal(file, node.Mark(), "nested deeper than 32")};
  for (const auto& entry : node) {
    if (node.IsMap()) {
      check_size(entry.second, file, depth + 1, values);
    } else {
      check_size(entry, file, depth + 1, values);
    }
  }
}

}  // namespace

Refusal yaml_refusal(const std::string& file, const YAML::Mark& mark, const std::string& what) {
  return {"InvalidFile", file + ":" + std::to_string(mark.line + 1) + ": " + what, 400};
}

Result<std::string> read_input(const std::string& path) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream file(path, std::ios::binary);
    if (!file) return Refusal{"InvalidFile", path + ": cannot be read", 400};
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

Result<YAML::Node> YamlRequest::load(const std::string& text, const std::string& file) {
  if (text.size() > kFileBytesMax) return Refusal{"InvalidFile", file + ": larger than 1 MiB", 400};
  try {
    YAML::Node root = YAML::Load(text);
    std::size_t values = 0;
    check_size(root, file, 0, values);
    return root;
  } catch (const YAML::Exception& error) {
    return yaml_refusal(file, error.mark, error.msg);
  } catch (const Refused& refused) {
    return refused.refusal;
  }
}

Result<Json> YamlRequest::read(const YAML::Node& node, const std::string& type) const {
  try {
    return value(node, type, "", 0);
  } catch (const Refused& refused) {
    return refused.refusal;
  }
}

Json YamlRequest::value(const YAML::Node& node, const std::string& type, const std::string& path,
                        int depth) const {
  if (node.IsNull()) return nullptr;
  const auto mismatch = [&](const char* wanted) {
    return Refused{yaml_refusal(file_, node.Mark(), path + ": " + wanted + " is expected")};
  };
  if (type.starts_with("[")) {
    if (!node.IsSequence()) throw mismatch("a list");
    Json list = Json::array();
    const std::string inner = type.substr(1, type.size() - 2);
    for (std::size_t i = 0; i < node.size(); ++i) {
      list.push_back(value(node[i], inner, path + "[" + std::to_string(i) + "]", depth + 1));
    }
    return list;
  }
  if (type.starts_with("map<")) {
    if (!node.IsMap()) throw mismatch("a map");
    Json map = Json::object();
    const std::string inner = type == "map<string,string>" ? "string" : "any";
    for (const auto& entry : node) {
      const std::string key = entry.first.Scalar();
      map[key] = value(entry.second, inner, path + "." + key, depth + 1);
    }
    return map;
  }
  const bool has_fields = api::Catalogue::instance().fields(product_, type) != nullptr;
  if (has_fields) return object(node, type, path, depth);
  if (type == "any" && node.IsMap()) return value(node, "map<string,any>", path, depth);
  if (type == "any" && node.IsSequence()) return value(node, "[any]", path, depth);
  if (!node.IsScalar()) throw mismatch(type == "string" ? "text" : type.c_str());
  return scalar(node, type, path);
}

Json YamlRequest::object(const YAML::Node& node, const std::string& type, const std::string& path,
                         int depth) const {
  if (!node.IsMap()) {
    throw Refused{yaml_refusal(
        file_, node.Mark(),
        (path.empty() ? "a map" : path + ": a map") + std::string(" of fields is expected"))};
  }
  std::map<std::string, std::string> fields = *api::Catalogue::instance().fields(product_, type);
  if (const auto extra = extras_.find(type); extra != extras_.end()) {
    fields.insert(extra->second.begin(), extra->second.end());
  }
  Json object = Json::object();
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const std::string below = path.empty() ? key : path + "." + key;
    const auto field = fields.find(key);
    if (field == fields.end()) {
      std::vector<std::string> known;
      for (const auto& one : fields) known.push_back(one.first);
      throw Refused{
          yaml_refusal(file_, entry.first.Mark(),
                       "unknown key `" + api::plain_text(below) + "`" + did_you_mean(key, known))};
    }
    if (object.contains(key)) {
      throw Refused{yaml_refusal(file_, entry.first.Mark(), "`" + below + "` comes twice")};
    }
    object[key] = value(entry.second, field->second, below, depth + 1);
  }
  return object;
}

Json YamlRequest::scalar(const YAML::Node& node, const std::string& type,
                         const std::string& path) const {
  const std::string& text = node.Scalar();
  if (type == "string") return text;
  const bool quoted = node.Tag() == "!";
  const auto wrong = [&](const char* wanted) {
    return Refused{yaml_refusal(file_, node.Mark(),
                                path + " is " + api::shown(text) + "; " + wanted + " is expected")};
  };
  bool flag = false;
  std::int64_t whole = 0;
  double number = 0;
  if (!quoted && type != "number" && YAML::convert<bool>::decode(node, flag) &&
      (text == "true" || text == "false")) {
    return flag;
  }
  if (type == "boolean") throw wrong("true or false");
  if (!quoted && YAML::convert<std::int64_t>::decode(node, whole)) return whole;
  if (!quoted && YAML::convert<double>::decode(node, number) && number == number &&
      number - number == 0) {
    return number;
  }
  if (type == "number") throw wrong("a number");
  return text;
}

namespace {

void emit(YAML::Emitter& out, const Json& json) {
  switch (json.type()) {
    case Json::value_t::object:
      if (json.empty()) {
        out << YAML::Flow << YAML::BeginMap << YAML::EndMap;
        return;
      }
      out << YAML::BeginMap;
      for (const auto& [key, inner] : json.items()) {
        out << YAML::Key << key << YAML::Value;
        emit(out, inner);
      }
      out << YAML::EndMap;
      return;
    case Json::value_t::array:
      if (json.empty()) {
        out << YAML::Flow << YAML::BeginSeq << YAML::EndSeq;
        return;
      }
      out << YAML::BeginSeq;
      for (const Json& inner : json) emit(out, inner);
      out << YAML::EndSeq;
      return;
    case Json::value_t::string: {
      // A string that would be read back as something else is quoted.
      const std::string text = api::plain_text(json.get<std::string>());
      const YAML::Node read = YAML::Node(text);
      bool flag = false;
      double number = 0;
      const bool looks_typed = text.empty() || YAML::convert<bool>::decode(read, flag) ||
                               YAML::convert<double>::decode(read, number) || text == "null" ||
                               text == "~";
      if (looks_typed) out << YAML::DoubleQuoted;
      out << text;
      return;
    }
    case Json::value_t::null:
      out << YAML::Null;
      return;
    default:
      out << json.dump();
      return;
  }
}

}  // namespace

std::string yaml_text(const Json& json) {
  YAML::Emitter out;
  emit(out, json);
  return std::string(out.c_str()) + "\n";
}

}  // namespace ebb::cli
