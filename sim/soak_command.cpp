#include <algorithm>
#include <iostream>
#include <thread>

#include "base/planted.hpp"
#include "sim/commands.hpp"
#include "sim/soak/many.hpp"
#include "sim/soak/plan.hpp"
#include "sim/soak/run.hpp"
#include "sim/soak/shrink.hpp"

namespace ebb::sim {
namespace {
int bad(const std::string& message) {
  std::cerr << message << '\n';
  return 2;
}

/// False: said why on standard error.
bool read_number(const std::string& name, const std::string& text, std::uint64_t least,
                 std::uint64_t most, std::uint64_t* out) {
  const bool digits = !text.empty() && text.size() < 19 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (digits) *out = std::stoull(text);
  if (digits && *out >= least && *out <= most) return true;
  std::cerr << name << " \"" << text << "\" is not allowed; allowed: " << least << " to " << most
            << '\n';
  return false;
}

bool plant(const std::string& name) {
#ifdef EBB_PLANTED_BUILD
  for (const PlantedFault& fault : kPlantedFaults) {
    if (fault.name != name) continue;
    planted_fault = fault.fault;
    return true;
  }
  std::cerr << "--planted \"" << name << "\" is unknown; known:\n";
  for (const PlantedFault& fault : kPlantedFaults) {
    std::cerr << "  " << fault.name << ": " << fault.text << '\n';
  }
#else
  std::cerr << "--planted " << name << ": this build has no planted faults (-DEBB_PLANTED=ON)\n";
#endif
  return false;
}
}  // namespace

int seed_command(const std::vector<std::string>& arguments) {
  std::uint64_t seed = 0;
  bool has_seed = false, small = false;
  RunOptions options;
  Without without;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (argument == "--shrink") {
      small = true;
    } else if (argument == "--trace") {
      options.trace = &std::cout;
    } else if (argument == "--without") {
      const auto parsed = parse_without(value);
      if (!parsed) return bad(parsed.refusal().message);
      without = *parsed;
      ++i;
    } else if (argument == "--planted") {
      if (!plant(value)) return 2;
      ++i;
    } else if (!has_seed && !argument.starts_with("--")) {
      if (!read_number("seed", argument, 0, ~0ull >> 8, &seed)) return 2;
      has_seed = true;
    } else {
      return bad("seed: \"" + argument +
                 "\" is unknown; allowed: --shrink, --trace, --without, "
                 "--planted");
    }
  }
  if (!has_seed) return bad("seed: which? usage: ebb-sim seed S [--shrink] [--trace]");
  const Plan whole = plan_of(seed);
  RunResult result = run(plan_without(whole, without), options);
  if (result.violation && small) {
    std::cout << "shrinking " << result.violation->invariant << " ..." << std::endl;
    without = shrink(whole, result.violation->invariant);
    result = run(plan_without(whole, without));
  }
  std::cout << "seed " << seed << " hash " << std::hex << result.hash << std::dec << " steps "
            << result.counters.steps << " virtual_s " << result.virtual_ms / 1000 << '\n';
  if (!result.violation) return 0;
  print_failure(std::cout, seed, text_of(without), result);
  return 1;
}

int soak_command(const std::vector<std::string>& arguments) {
  ManyOptions options;
  options.jobs = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    const std::string& argument = arguments[i];
    const std::string& value = arguments[i + 1];
    std::uint64_t number = 0;
    if (argument == "--seeds") {
      if (!read_number(argument, value, 1, 100'000'000, &options.seeds)) return 2;
    } else if (argument == "--first") {
      if (!read_number(argument, value, 0, ~0ull >> 8, &options.first)) return 2;
    } else if (argument == "--jobs") {
      if (!read_number(argument, value, 1, 256, &number)) return 2;
      options.jobs = static_cast<unsigned>(number);
    } else if (argument == "--stop-after") {
      if (!read_number(argument, value, 1, 1'000'000, &options.failures_most)) return 2;
    } else if (argument == "--checks") {
      if (value != "every" && value != "sampled") {
        return bad("--checks \"" + value + "\" is not allowed; allowed: every, sampled");
      }
      options.checks = value == "every" ? Checks::Every : Checks::Sampled;
    } else if (argument == "--planted") {
      if (!plant(value)) return 2;
      options.planted = value;
    } else {
      return bad("soak: \"" + argument +
                 "\" is unknown; allowed: --seeds, --first, --checks, "
                 "--jobs, --stop-after, --planted");
    }
  }
  if (arguments.size() % 2 != 0) return bad("soak: " + arguments.back() + " needs a value");
  return soak_many(options, std::cout) == 0 ? 0 : 1;
}

}  // namespace ebb::sim
