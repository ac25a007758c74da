#include "sim/soak/shrink.hpp"

#include <algorithm>
#include <sstream>

namespace ebb::sim {
namespace {
const std::set<std::string>& net_kinds() {
  static const std::set<std::string> kKinds = {"drop", "double", "replay", "delay"};
  return kKinds;
}

std::string text_of_numbers(const std::set<std::size_t>& numbers) {
  std::string text;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const std::size_t first = *it;
    std::size_t last = first;
    for (++it; it != numbers.end() && *it == last + 1; ++it) last = *it;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last != first) text += "-" + std::to_string(last);
  }
  return text;
}

Refusal bad(const std::string& part) {
  return {
      "InvalidParameter",
      "--without: \"" + part + "\" is not of the form works=0-3,7;acts=1;faults=2;net=drop,delay"};
}

Result<std::set<std::size_t>> numbers_of(const std::string& text) {
  std::set<std::size_t> numbers;
  std::stringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    const bool good = !item.empty() && item.find_first_not_of("0123456789-") == std::string::npos &&
                      item.front() != '-' && item.back() != '-' && item.size() < 12;
    if (!good) return bad(item);
    const std::size_t dash = item.find('-');
    const std::size_t first = std::stoul(item.substr(0, dash));
    const std::size_t last = dash == std::string::npos ? first : std::stoul(item.substr(dash + 1));
    for (std::size_t i = first; i <= last; ++i) numbers.insert(i);
  }
  return numbers;
}

template <class T>
std::vector<T> left(const std::vector<T>& all, const std::set<std::size_t>& without) {
  std::vector<T> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (without.count(i) == 0) kept.push_back(all[i]);
  }
  return kept;
}
}  // namespace

Result<Without> parse_without(const std::string& text) {
  Without without;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) return bad(part);
    const std::string name = part.substr(0, equals), list = part.substr(equals + 1);
    if (name == "net") {
      std::stringstream kinds(list);
      for (std::string kind; std::getline(kinds, kind, ',');) {
        if (net_kinds().count(kind) == 0) return bad(kind);
        without.net.insert(kind);
      }
      continue;
    }
    auto numbers = numbers_of(list);
    if (!numbers) return numbers.refusal();
    if (name == "works") {
      without.works = *numbers;
    } else if (name == "acts") {
      without.acts = *numbers;
    } else if (name == "faults") {
      without.faults = *numbers;
    } else {
      return bad(part);
    }
  }
  return without;
}

std::string text_of(const Without& without) {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& list) {
    if (list.empty()) return;
    if (!text.empty()) text += ';';
    text += name + "=" + list;
  };
  add("works", text_of_numbers(without.works));
  add("acts", text_of_numbers(without.acts));
  add("faults", text_of_numbers(without.faults));
  std::string kinds;
  for (const std::string& kind : without.net) kinds += (kinds.empty() ? "" : ",") + kind;
  add("net", kinds);
  return text;
}

Plan plan_without(const Plan& plan, const Without& without) {
  Plan small = plan;
  // Works keep their numbers, which name them: one that is left out comes after the end.
  for (const std::size_t i : without.works) {
    if (i < small.works.size()) small.works[i].at_ms = small.chaos_ms * 100;
  }
  small.acts = left(plan.acts, without.acts);
  small.faults = left(plan.faults, without.faults);
  if (without.net.count("drop") != 0) small.net.drop_per_mille = 0;
  if (without.net.count("double") != 0) small.net.double_per_mille = 0;
  if (without.net.count("replay") != 0) small.net.replay_per_mille = 0;
  if (without.net.count("delay") != 0) small.net.delay = Delay::None;
  return small;
}

Without shrink(const Plan& plan, const std::string& invariant) {
  Without best;
  const auto still_fails = [&](const Without& trial) {
    const Plan small = plan_without(plan, trial);
    const RunResult result = run(small);
    return result.violation && result.violation->invariant == invariant;
  };
  const auto narrow = [&](std::set<std::size_t> Without::*field, std::size_t count) {
    // Halves first, then ever smaller pieces.
    for (std::size_t piece = std::max<std::size_t>(1, count / 2); count > 0; piece /= 2) {
      for (std::size_t first = 0; first < count; first += piece) {
        Without trial = best;
        for (std::size_t i = first; i < std::min(count, first + piece); ++i) {
          (trial.*field).insert(i);
        }
        if ((trial.*field).size() == (best.*field).size()) continue;
        if (still_fails(trial)) best = trial;
      }
      if (piece == 1) break;
    }
  };
  for (const std::string& kind : net_kinds()) {
    Without trial = best;
    trial.net.insert(kind);
    if (still_fails(trial)) best = trial;
  }
  narrow(&Without::faults, plan.faults.size());
  narrow(&Without::acts, plan.acts.size());
  narrow(&Without::works, plan.works.size());
  narrow(&Without::faults, plan.faults.size());
  return best;
}

}  // namespace ebb::sim
