#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "sim/commands.hpp"
#include "sim/scenario/file.hpp"
#include "sim/scenario/play.hpp"

namespace ebb::sim {
namespace {
bool play_file(const std::string& path, std::ostream* trace) {
  Json line;
  line["id"] = path;
  line["passed"] = false;
  line["failed"] = Json::array();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    line["failed"].push_back("the file cannot be read");
  } else if (const auto scenario = read_scenario(text.str()); !scenario) {
    line["failed"].push_back(scenario.refusal().message);
  } else {
    line["id"] = scenario->id;
    try {
      for (const std::string& fault : play(*scenario, 1, trace).failed) {
        line["failed"].push_back(fault);
      }
    } catch (const Json::exception& error) {
      line["failed"].push_back(std::string("not of the form: ") + error.what());
    }
  }
  line["passed"] = line["failed"].empty();
  std::cout << line.dump() << std::endl;
  return line["passed"].get<bool>();
}
}  // namespace

int scenario_command(const std::vector<std::string>& arguments) {
  bool all = true;
  std::ostream* trace = nullptr;
  int files = 0;
  for (const std::string& argument : arguments) {
    if (argument == "--trace") {
      trace = &std::cerr;
      continue;
    }
    ++files;
    all = play_file(argument, trace) && all;
  }
  if (files == 0) {
    std::cerr << "scenario: no file named\n";
    return 2;
  }
  return all ? 0 : 1;
}

}  // namespace ebb::sim
