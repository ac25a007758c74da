// The mechanism behind settings.hpp: a table of rows, and reading, checking, printing by it.
#pragma once
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "base/nearest.hpp"
#include "base/result.hpp"

namespace ebb::config {

template <class Settings>
struct Row {
  std::string key;  // "http.port": dots are levels of the file
  std::variant<std::string Settings::*, std::int64_t Settings::*, double Settings::*,
               bool Settings::*>
      member;
  std::string meaning;
  std::string unit;  // empty for text and names
  double min = 0;    // numbers only
  double max = 0;
  std::vector<std::string> allowed;  // text only; empty: any
};

template <class Settings>
class SettingsTable {
 public:
  explicit SettingsTable(std::vector<Row<Settings>> rows) : rows_(std::move(rows)) {}

  Result<Settings> read(const std::string& text, const std::string& file) const {
    Settings settings;
    YAML::Node root;
    try {
      root = YAML::Load(text);
    } catch (const YAML::Exception& error) {
      return refused(file, error.mark.line, error.msg);
    }
    if (root.IsNull()) return settings;
    if (auto read = read_map(root, "", file, settings); !read) return read.refusal();
    return settings;
  }

  Result<Ok> check(const Settings& settings) const {
    for (const Row<Settings>& row : rows_) {
      const std::string fault = fault_of(row, settings);
      if (!fault.empty()) return Refusal{"InvalidSetting", row.key + fault, 400};
    }
    return Ok{};
  }

  std::string printed(const Settings& settings) const {
    std::ostringstream out;
    std::string section;
    for (const Row<Settings>& row : rows_) {
      const auto dot = row.key.find('.');
      const std::string level = dot == std::string::npos ? "" : row.key.substr(0, dot);
      if (level != section && !level.empty()) out << level << ":\n";
      section = level;
      const std::string indent = level.empty() ? "" : "  ";
      out << indent << "# " << row.meaning << bounds_of(row) << "\n"
          << indent << (level.empty() ? row.key : row.key.substr(dot + 1)) << ": "
          << value_text(row, settings) << "\n";
    }
    return out.str();
  }

 private:
  static Refusal refused(const std::string& file, int line, const std::string& what) {
    return {"InvalidSetting", file + ":" + std::to_string(line + 1) + ": " + what, 400};
  }

  bool is_section(const std::string& key) const {
    for (const auto& row : rows_) {
      if (row.key.starts_with(key + ".")) return true;
    }
    return false;
  }

  const Row<Settings>* find(const std::string& key) const {
    for (const auto& row : rows_) {
      if (row.key == key) return &row;
    }
    return nullptr;
  }

  Result<Ok> read_map(const YAML::Node& map, const std::string& prefix, const std::string& file,
                      Settings& settings) const {
    if (!map.IsMap()) return refused(file, map.Mark().line, "a map of settings is expected");
    std::vector<std::string> seen;
    for (const auto& entry : map) {
      const int line = entry.first.Mark().line;
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const std::string key = prefix.empty() ? name : prefix + "." + name;
      if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
        return refused(file, line, "`" + key + "` comes twice");
      }
      seen.push_back(key);
      const Row<Settings>* row = find(key);
      if (row == nullptr && is_section(key)) {
        if (entry.second.IsNull()) continue;
        if (auto read = read_map(entry.second, key, file, settings); !read) return read.refusal();
        continue;
      }
      if (row == nullptr) {
        std::vector<std::string> known;
        for (const auto& one : rows_) known.push_back(one.key);
        return refused(file, line, "unknown setting `" + key + "`" + did_you_mean(key, known));
      }
      if (!set(*row, entry.second, settings)) {
        return refused(file, line, "`" + key + "`: " + type_of(*row) + " is expected");
      }
      const std::string fault = fault_of(*row, settings);
      if (!fault.empty()) return refused(file, line, "`" + key + "`" + fault);
    }
    return Ok{};
  }

  static bool set(const Row<Settings>& row, const YAML::Node& node, Settings& settings) {
    if (!node.IsScalar()) return false;
    return std::visit(
        [&](auto member) {
          using Value = std::remove_reference_t<decltype(settings.*member)>;
          try {
            settings.*member = node.as<Value>();
            return true;
          } catch (const YAML::Exception&) {
            return false;
          }
        },
        row.member);
  }

  static std::string type_of(const Row<Settings>& row) {
    static const char* kNames[] = {"text", "a whole number", "a number", "true or false"};
    return kNames[row.member.index()];
  }

  static std::string number_text(double number) {
    std::ostringstream out;
    out.precision(15);
    out << number;
    return out.str();
  }

  static std::string bounds_of(const Row<Settings>& row) {
    std::string text;
    if (!row.unit.empty()) text = " Unit: " + row.unit + ".";
    if (row.member.index() == 1 || row.member.index() == 2) {
      text += " " + number_text(row.min) + " to " + number_text(row.max) + ".";
    }
    for (std::size_t i = 0; i < row.allowed.size(); ++i) {
      text +=
          (i == 0 ? " One of: " : ", ") + row.allowed[i] + (i + 1 == row.allowed.size() ? "." : "");
    }
    return text;
  }

  static std::string value_text(const Row<Settings>& row, const Settings& settings) {
    return std::visit(
        [&](auto member) -> std::string {
          const auto& value = settings.*member;
          using Value = std::remove_cvref_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, std::string>) {
            std::string quoted = "\"";
            for (const char c : value) {
              if (c == '"' || c == '\\') quoted.push_back('\\');
              quoted.push_back(c);
            }
            return quoted + "\"";
          } else if constexpr (std::is_same_v<Value, bool>) {
            return value ? "true" : "false";
          } else {
            return number_text(static_cast<double>(value));
          }
        },
        row.member);
  }

  static std::string fault_of(const Row<Settings>& row, const Settings& settings) {
    return std::visit(
        [&](auto member) -> std::string {
          const auto& value = settings.*member;
          using Value = std::remove_cvref_t<decltype(value)>;
          if constexpr (std::is_same_v<Value, std::string>) {
            if (row.allowed.empty() ||
                std::find(row.allowed.begin(), row.allowed.end(), value) != row.allowed.end()) {
              return {};
            }
            return " is \"" + value + "\";" + bounds_of(row) + did_you_mean(value, row.allowed);
          } else if constexpr (std::is_same_v<Value, bool>) {
            return {};
          } else {
            const auto number = static_cast<double>(value);
            if (number >= row.min && number <= row.max) return {};
            return " is " + number_text(number) + "; allowed:" + bounds_of(row);
          }
        },
        row.member);
  }

  std::vector<Row<Settings>> rows_;
};

}  // namespace ebb::config
