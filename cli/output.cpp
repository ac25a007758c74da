#include "cli/output.hpp"

#include <algorithm>
#include <sstream>

#include "cli/yaml_request.hpp"

namespace ebb::cli {
namespace {

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string word(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) {
    const std::string text = api::plain_text(value.get<std::string>());
    return text.empty() ? "-" : text;
  }
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return number_text(value.get<double>());
  if (value.is_array()) {
    std::string text;
    for (const Json& one : value) text += (text.empty() ? "" : ",") + word(one);
    return text.empty() ? "-" : text;
  }
  if (value.is_object()) {
    std::string text;
    for (const auto& [key, one] : value.items()) {
      text += (text.empty() ? "" : " ") + api::plain_text(key) + "=" + word(one);
    }
    return text.empty() ? "-" : text;
  }
  return value.dump();
}

}  // namespace

std::string number_text(double number) {
  std::ostringstream out;
  out.precision(12);
  out << number;
  return out.str();
}

std::string cell(const Json& item, const char* pointer) {
  const Json::json_pointer at(pointer);
  return item.contains(at) ? word(item[at]) : "-";
}

std::string table_text(const std::vector<std::string>& titles,
                       const std::vector<std::vector<std::string>>& rows,
                       const std::vector<bool>& right) {
  std::vector<std::size_t> widths;
  for (const std::string& title : titles) widths.push_back(width_of(title));
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string gap(widths[i] - width_of(cells[i]), ' ');
      out += (i == 0 ? "" : "  ") + (right[i] ? gap + cells[i] : cells[i] + gap);
    }
    while (out.ends_with(' ')) out.pop_back();
    text += out + "\n";
  };
  line(titles);
  for (const auto& row : rows) line(row);
  return text;
}

std::string list_text(const Json& items, const std::vector<Column>& columns, const char* id,
                      Format format) {
  switch (format) {
    case Format::Json:
      return items.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    case Format::Yaml:
      return yaml_text(items);
    case Format::Quiet: {
      std::string text;
      for (const Json& item : items) text += cell(item, id) + "\n";
      return text;
    }
    case Format::Table:
      break;
  }
  std::vector<std::string> titles;
  std::vector<bool> right;
  for (const Column& column : columns) {
    titles.emplace_back(column.title);
    right.push_back(column.right);
  }
  std::vector<std::vector<std::string>> rows;
  for (const Json& item : items) {
    auto& row = rows.emplace_back();
    for (const Column& column : columns) row.push_back(cell(item, column.pointer));
  }
  return table_text(titles, rows, right);
}

std::string object_text(const Json& object, const char* id, Format format) {
  switch (format) {
    case Format::Json:
      return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    case Format::Yaml:
      return yaml_text(object);
    case Format::Quiet:
      return cell(object, id) + "\n";
    case Format::Table:
      break;
  }
  std::vector<std::vector<std::string>> rows;
  std::size_t widest = 0;
  for (const auto& [key, value] : object.items()) {
    if (value.is_null() || (value.is_string() && value.get<std::string>().empty())) continue;
    rows.push_back({key, word(value)});
    widest = std::max(widest, key.size());
  }
  std::string text;
  for (const auto& row : rows)
    text += row[0] + std::string(widest - row[0].size() + 2, ' ') + row[1] + "\n";
  return text;
}

}  // namespace ebb::cli
