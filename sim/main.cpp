// ebb-sim: the simulated world as a program.
//   ebb-sim scenario [--trace] FILE...   plays each file, prints one JSON line a file, exit 1 if
//   any failed;
//                                        --trace: decisions and alarms on standard error
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "sim/scenario/file.hpp"
#include "sim/scenario/play.hpp"

namespace {
using ebb::sim::Json;

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
  } else if (const auto scenario = ebb::sim::read_scenario(text.str()); !scenario) {
    line["failed"].push_back(scenario.refusal().message);
  } else {
    line["id"] = scenario->id;
    try {
      for (const std::string& fault : ebb::sim::play(*scenario, 1, trace).failed) {
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
    std::cerr << "usage: ebb-sim scenario [--trace] FILE...\n";
    return 2;
  }
  bool all = true;
  const bool trace = std::string(argv[2]) == "--trace";
  for (int i = trace ? 3 : 2; i < argc; ++i) {
    all = play_file(argv[i], trace ? &std::cerr : nullptr) && all;
  }
  return all ? 0 : 1;
}
