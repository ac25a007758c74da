#include "cli/output.hpp"

#include <doctest/doctest.h>

#include "cli/yaml_request.hpp"

using namespace ebb;
using namespace ebb::cli;

TEST_CASE("output: a table is aligned, by characters, numbers right") {
  const Json items = {{{"Name", "übung"}, {"Gpu", 8}},
                      {{"Name", "a"}, {"Gpu", 128}, {"More", nullptr}}};
  CHECK(list_text(items, {{"NAME", "/Name"}, {"GPU", "/Gpu", true}, {"MORE", "/More"}}, "/Name",
                  Format::Table) == "NAME   GPU  MORE\nübung    8  -\na      128  -\n");
  CHECK(list_text(items, {}, "/Name", Format::Quiet) == "übung\na\n");
}

TEST_CASE("output: escapes and control characters of names never reach the terminal") {
  struct Row {
    std::string in, out;
  };
  const Row rows[] = {
      {"\x1b[31mred\x1b[0m", "red"},
      {"\x1b]0;title\x07name", "name"},
      {"\x1b]0;title\x1b\\name", "name"},
      {"a\x08\x7f"
       "b\r\nc",
       "a??b??c"},
      {"\xc2\x9b"
       "31m",
       "??31m"},  // CSI as one character
      {"plain \xe4\xbd\xa0", "plain \xe4\xbd\xa0"},
      {"cut \xe4\xbd", "cut ??"},
      {"\x1b", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.in);
    CHECK(api::plain_text(row.in) == row.out);
    CHECK(cell({{"Name", row.in}}, "/Name") == (row.out.empty() ? "-" : row.out));
  }
}

TEST_CASE("output: YAML is read back as what was printed") {
  const Json value = {{"text", "true"},
                      {"number", "12"},
                      {"empty", ""},
                      {"list", {1, 2.5, "x: y"}},
                      {"nothing", Json::object()},
                      {"flag", false}};
  const auto text = yaml_text(value);
  const YAML::Node read = YAML::Load(text);
  CHECK(read["text"].Tag() == "!");
  CHECK(read["number"].Tag() == "!");
  CHECK(read["list"][2].as<std::string>() == "x: y");
  CHECK(read["list"][1].as<double>() == 2.5);
  CHECK(read["nothing"].IsMap());
  CHECK(!read["flag"].as<bool>());
}
