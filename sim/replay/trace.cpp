// Trace files as tables.
#include <fstream>
#include <sstream>

#include "sim/replay/plan.hpp"

namespace ebb::sim {
namespace {
Refusal unreadable(const std::string& path) {
  return {"InvalidTrace", "file: \"" + path + "\" cannot be read", 400};
}
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.push_back(std::move(field));
      field.clear();
    } else if (c != '\r') {
      field += c;
    }
  }
  fields.push_back(std::move(field));
  return fields;
}
}  // namespace

Result<Table> read_csv(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return unreadable(path);
  const std::vector<std::string> names = fields_of(line);
  Table table;
  for (int number = 2; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    std::vector<std::string> fields = fields_of(line);
    if (fields.size() != names.size()) {
      return Refusal{"InvalidTrace",
                     "file: \"" + path + "\" line " + std::to_string(number) + " has " +
                         std::to_string(fields.size()) + " fields, its first line " +
                         std::to_string(names.size()),
                     400};
    }
    auto& row = table.rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = std::move(fields[i]);
  }
  return table;
}

Result<Table> read_swf(const std::string& path) {
  // Source: Standard Workload Format 2.2: 18 numbers a line, -1 where unknown, ';' for comments.
  constexpr std::size_t kSubmit = 1, kRun = 3, kUsed = 4, kAsked = 7, kQueue = 14, kFields = 18;
  std::ifstream file(path);
  if (!file) return unreadable(path);
  Table table;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == ';') continue;
    std::istringstream words(line);
    std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    if (fields.size() < kFields) {
      return Refusal{"InvalidTrace",
                     "file: \"" + path + "\" line " + std::to_string(number) + " has " +
                         std::to_string(fields.size()) + " fields, SWF has 18",
                     400};
    }
    auto& row = table.rows.emplace_back();
    row["submit"] = fields[kSubmit];
    row["run"] = fields[kRun];
    row["processors"] = fields[kAsked] == "-1" ? fields[kUsed] : fields[kAsked];
    row["queue"] = fields[kQueue];
  }
  return table;
}

}  // namespace ebb::sim
