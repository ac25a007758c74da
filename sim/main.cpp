// ebb-sim: the simulated world as a program.
//   ebb-sim scenario FILE...   plays each file, prints one JSON line a file, exit 1 if any failed
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "sim/scenario/file.hpp"
#include "sim/scenario/play.hpp"

namespace {
using ebb::sim::Json;

bool play_file(const std::string& path) {
  Json line;
  line["id"] = path;
  line["passed"] = false;
  line["failed"] = Json::array();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    line["failed"].push_back("the file cannot be read");
  } else if (const auto scenario = ebb::sim::read_scenario(text.str()); !scenario) {
    line["failed"].push_back(scenario.refusal().message);
  } else {
    line["id"] = scenario->id;
    try {
      for (const std::string& fault : ebb::sim::play(*scenario, 1).failed) {
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

int main(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "scenario") {
    std::cerr << "usage: ebb-sim scenario FILE...\n";
    return 2;
  }
  bool all = true;
  for (int i = 2; i < argc; ++i) all = play_file(argv[i]) && all;
  return all ? 0 : 1;
}
