// Parsing of one cron expression.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "scheduling/cron/cron.hpp"

namespace ebb::scheduling {
namespace {

struct FieldRule {
  const char* name;
  int least;
  int most;
  const char* allowed;
  std::array<std::string_view, 12> names;  // the first one stands for `least`
};

constexpr std::array<FieldRule, 6> kFields = {{
    {"second", 0, 59, "0-59", {}},
    {"minute", 0, 59, "0-59", {}},
    {"hour", 0, 23, "0-23", {}},
    {"day-of-month", 1, 31, "1-31", {}},
    {"month",
     1,
     12,
     "1-12 or JAN-DEC",
     {"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}},
    {"day-of-week", 0, 6, "0-6 or SUN-SAT", {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}},
}};

// Longest expression that is read: a list of all 60 seconds, minutes and so on stays below it.
constexpr std::size_t kLongestExpression = 1024;

/// What a refusal quotes of a text from outside: short, and printable.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 60)) {
    out += std::isprint(static_cast<unsigned char>(c)) != 0 ? c : '?';
  }
  if (text.size() > 60) out += "...";
  return out + "\"";
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty()) {
    const auto begin = std::find_if_not(text.begin(), text.end(), is_space);
    const auto end = std::find_if(begin, text.end(), is_space);
    if (begin != end) words.emplace_back(begin, end);
    text = std::string_view(end, text.end());
  }
  return words;
}

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == y;
  });
}

std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits_only = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
  if (!digits_only || error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

std::optional<int> value_of(const FieldRule& rule, std::string_view text) {
  for (std::size_t i = 0; i < rule.names.size(); ++i) {
    if (!rule.names[i].empty() && same_word(text, rule.names[i])) {
      return rule.least + static_cast<int>(i);
    }
  }
  const std::optional<int> value = number_of(text);
  if (!value || *value < rule.least || *value > rule.most) return {};
  return value;
}

/// One part of a list: sets its values. Returns what is wrong with it; empty: nothing.
template <std::size_t N>
std::string read_part(const FieldRule& rule, std::string_view part, std::bitset<N>* values) {
  const std::size_t slash = part.find('/');
  int step = 1;
  if (slash != std::string_view::npos) {
    const std::optional<int> given = number_of(part.substr(slash + 1));
    const int longest = rule.most - rule.least + 1;
    if (!given || *given < 1 || *given > longest) {
      return "its step " + quoted(part.substr(slash + 1)) + " is not a number from 1 to " +
             std::to_string(longest);
    }
    step = *given;
  }
  const std::string_view range = part.substr(0, slash);
  int first = rule.least;
  int last = rule.most;
  if (range != "*") {
    const std::size_t dash = range.find('-');
    const std::optional<int> from = value_of(rule, range.substr(0, dash));
    if (!from) return quoted(range.substr(0, dash)) + " is not in " + rule.allowed;
    first = *from;
    if (dash != std::string_view::npos) {
      const std::optional<int> to = value_of(rule, range.substr(dash + 1));
      if (!to) return quoted(range.substr(dash + 1)) + " is not in " + rule.allowed;
      if (*to < first) return "the range " + quoted(range) + " ends before it begins";
      last = *to;
    } else if (slash == std::string_view::npos) {
      last = first;
    }
  }
  for (int value = first; value <= last; value += step)
    values->set(static_cast<std::size_t>(value));
  return {};
}

template <std::size_t N>
std::string read_field(const FieldRule& rule, std::string_view text, std::bitset<N>* values) {
  for (const std::string_view part : split(text, ',')) {
    const std::string wrong = read_part(rule, part, values);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

Result<CronExpression> parse_cron(std::string_view expression, std::string_view field) {
  const auto refusal = [&](const std::string& message) {
    return Refusal{"InvalidParameter",
                   std::string(field) + " " + quoted(expression) + ": " + message};
  };
  if (expression.size() > kLongestExpression) {
    return refusal("longer than " + std::to_string(kLongestExpression) + " characters");
  }
  const std::vector<std::string_view> words = words_of(expression);
  if (words.size() != kFields.size()) {
    return refusal("it has " + std::to_string(words.size()) +
                   " fields; a cron expression has six: second minute hour day-of-month month "
                   "day-of-week");
  }
  CronExpression parsed;
  const std::array<std::string, 6> wrong = {
      read_field(kFields[0], words[0], &parsed.seconds),
      read_field(kFields[1], words[1], &parsed.minutes),
      read_field(kFields[2], words[2], &parsed.hours),
      read_field(kFields[3], words[3], &parsed.days_of_month),
      read_field(kFields[4], words[4], &parsed.months),
      read_field(kFields[5], words[5], &parsed.days_of_week),
  };
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i].empty()) continue;
    return refusal("field " + std::to_string(i + 1) + " (" + kFields[i].name + ") is " +
                   quoted(words[i]) + ": " + wrong[i] + "; allowed are " + kFields[i].allowed +
                   ", *, lists with ',', ranges with '-', steps with '/'");
  }
  return parsed;
}

bool CronExpression::matches_date(int month, int day_of_month, int day_of_week) const {
  if (!months.test(static_cast<std::size_t>(month))) return false;
  const bool any_day_of_month = days_of_month.count() == 31;
  const bool any_day_of_week = days_of_week.all();
  const bool by_month = days_of_month.test(static_cast<std::size_t>(day_of_month));
  const bool by_week = days_of_week.test(static_cast<std::size_t>(day_of_week));
  if (any_day_of_month) return by_week;
  if (any_day_of_week) return by_month;
  return by_month || by_week;
}

}  // namespace ebb::scheduling
