// What `ebb` prints: tables, JSON, YAML or only ids. Control characters and terminal escapes in
// names are removed.
#pragma once
#include <string>
#include <vector>

#include "gateway/api/json.hpp"

namespace ebb::cli {

using api::Json;

enum class Format { Table, Json, Yaml, Quiet };

struct Column {
  const char* title;
  const char* pointer;  // JSON pointer into one item, for instance "/QuotaDetails/Used"
  bool right = false;   // numbers stand right
};

/// A scalar as one word or sentence; lists joined by commas; "-" for nothing.
std::string cell(const Json& item, const char* pointer);
/// Aligned columns; width counts characters, not bytes.
std::string table_text(const std::vector<std::string>& titles,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::vector<bool>& right);
/// A list in the wanted format. `id`: pointer to what Quiet prints.
std::string list_text(const Json& items, const std::vector<Column>& columns, const char* id,
                      Format format);
/// One object: as a table, a line a field.
std::string object_text(const Json& object, const char* id, Format format);

/// A GPU count for people: 8, 0.5.
std::string number_text(double number);

}  // namespace ebb::cli
