#include "scheduling/cron/cron.hpp"

#include <date/tz.h>

#include <array>
#include <charconv>

namespace ebb::scheduling {
namespace {

constexpr std::array kMonths = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array kDays = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};

struct FieldRule {
  const char* name;
  int low, high;
};
constexpr std::array kFields = {FieldRule{"second", 0, 59}, FieldRule{"minute", 0, 59},
                                FieldRule{"hour", 0, 23},   FieldRule{"day-of-month", 1, 31},
                                FieldRule{"month", 1, 12},  FieldRule{"day-of-week", 0, 7}};

std::vector<std::string_view> split(std::string_view text, char separator, bool skip_empty) {
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  while (from <= text.size()) {
    std::size_t to = text.find(separator, from);
    if (to == std::string_view::npos) to = text.size();
    if (!skip_empty || to > from) parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

bool read_number(std::string_view text, int* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_value(std::string_view text, int field, int* out) {
  const auto named = [&](const auto& names, int first) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string_view name = names[i];
      if (text.size() != name.size()) continue;
      bool same = true;
      for (std::size_t k = 0; k < name.size(); ++k) {
        same = same && (text[k] & ~0x20) == name[k];
      }
      if (same) {
        *out = static_cast<int>(i) + first;
        return true;
      }
    }
    return false;
  };
  if (field == 4 && named(kMonths, 1)) return true;
  if (field == 5 && named(kDays, 0)) return true;
  return read_number(text, out);
}

/// Marks what one field allows; false if it cannot be read.
bool read_field(std::string_view text, int field, std::bitset<64>* allowed) {
  const FieldRule& rule = kFields[static_cast<std::size_t>(field)];
  for (std::string_view item : split(text, ',', false)) {
    int step = 1;
    bool stepped = false;
    if (const std::size_t slash = item.find('/'); slash != std::string_view::npos) {
      if (!read_number(item.substr(slash + 1), &step) || step < 1 || step > rule.high) return false;
      stepped = true;
      item = item.substr(0, slash);
    }
    int low = rule.low, high = field == 5 ? 6 : rule.high;
    const bool all = item == "*" || (item == "?" && (field == 3 || field == 5));
    if (!all) {
      const std::size_t dash = item.find('-');
      if (!read_value(item.substr(0, dash), field, &low)) return false;
      if (dash != std::string_view::npos) {
        if (!read_value(item.substr(dash + 1), field, &high)) return false;
      } else if (!stepped) {
        high = low;
      }
    }
    if (low < rule.low || high > rule.high || low > high) return false;
    for (int value = low; value <= high; value += step) {
      allowed->set(static_cast<std::size_t>(field == 5 ? value % 7 : value));
    }
  }
  return true;
}

template <std::size_t N>
std::bitset<N> narrow(const std::bitset<64>& wide) {
  std::bitset<N> out;
  for (std::size_t i = 0; i < N; ++i) out[i] = wide[i];
  return out;
}

bool day_matches(const CronExpression& cron, date::local_days day) {
  const date::year_month_day ymd{day};
  if (!cron.months[static_cast<unsigned>(ymd.month())]) return false;
  const bool in_month = cron.days[static_cast<unsigned>(ymd.day())];
  const bool in_week = cron.weekdays[date::weekday{day}.c_encoding()];
  if (cron.any_day) return in_week;
  if (cron.any_weekday) return in_month;
  return in_month || in_week;
}

}  // namespace

Result<CronExpression> parse_cron(std::string_view text, std::string_view field) {
  const auto refuse = [&](const std::string& why) {
    return Refusal{"InvalidParameter",
                   std::string(field) + " \"" + std::string(text.substr(0, 100)) + "\" " + why,
                   400};
  };
  const std::vector<std::string_view> parts = split(text, ' ', true);
  if (parts.size() != 6) {
    return refuse("has " + std::to_string(parts.size()) +
                  " fields; a cron expression has 6: second minute hour day-of-month month "
                  "day-of-week");
  }
  std::array<std::bitset<64>, 6> allowed;
  for (int i = 0; i < 6; ++i) {
    const FieldRule& rule = kFields[static_cast<std::size_t>(i)];
    if (read_field(parts[static_cast<std::size_t>(i)], i, &allowed[static_cast<std::size_t>(i)]))
      continue;
    return refuse("has \"" + std::string(parts[static_cast<std::size_t>(i)]) + "\" as " +
                  rule.name + "; allowed: *, " + std::to_string(rule.low) + " to " +
                  std::to_string(i == 5 ? 6 : rule.high) +
                  (i == 4   ? ", JAN to DEC"
                   : i == 5 ? ", SUN to SAT"
                            : "") +
                  ", lists with \",\", ranges with \"-\", steps with \"/\"");
  }
  CronExpression cron;
  cron.seconds = narrow<60>(allowed[0]);
  cron.minutes = narrow<60>(allowed[1]);
  cron.hours = narrow<24>(allowed[2]);
  cron.days = narrow<32>(allowed[3]);
  cron.months = narrow<13>(allowed[4]);
  cron.weekdays = narrow<7>(allowed[5]);
  cron.any_day = parts[3] == "*" || parts[3] == "?";
  cron.any_weekday = parts[5] == "*" || parts[5] == "?";
  return cron;
}

Result<const date::time_zone*> parse_time_zone(const std::string& name, std::string_view field) {
  try {
    return date::locate_zone(name.empty() ? "Etc/UTC" : name);
  } catch (const std::exception&) {
    return Refusal{"InvalidParameter",
                   std::string(field) + " \"" + name.substr(0, 100) +
                       "\" is not known; allowed: IANA names such as Asia/Shanghai or UTC",
                   400};
  }
}

std::int64_t next_after(const CronExpression& cron, const date::time_zone* zone,
                        const std::vector<CronExpression>& excluded, std::int64_t wall_ms) {
  using std::chrono::seconds;
  const date::sys_seconds after{std::chrono::floor<seconds>(std::chrono::milliseconds{wall_ms})};
  const date::local_seconds local_after = zone->to_local(after);
  // One day earlier than today: where clocks go back, a later moment may have an earlier local
  // time.
  date::local_days day = date::floor<date::days>(local_after) - date::days{1};
  for (int tried = 0; tried < 366 * 5 + 2; ++tried, day += date::days{1}) {
    if (!day_matches(cron, day)) continue;
    bool is_excluded = false;
    for (const CronExpression& exclusion : excluded) {
      is_excluded = is_excluded || day_matches(exclusion, day);
    }
    if (is_excluded) continue;
    date::sys_seconds earliest{};
    bool found = false;
    for (int hour = 0; hour < 24 && !found; ++hour) {
      if (!cron.hours[static_cast<std::size_t>(hour)]) continue;
      for (int minute = 0; minute < 60 && !found; ++minute) {
        if (!cron.minutes[static_cast<std::size_t>(minute)]) continue;
        for (int second = 0; second < 60; ++second) {
          if (!cron.seconds[static_cast<std::size_t>(second)]) continue;
          const date::local_seconds local = date::local_seconds{day} + std::chrono::hours{hour} +
                                            std::chrono::minutes{minute} + seconds{second};
          const date::local_info info = zone->get_info(local);
          if (info.result == date::local_info::nonexistent) continue;
          const date::sys_seconds moment{local.time_since_epoch() - info.first.offset};
          if (moment <= after) continue;
          earliest = moment;
          found = true;
          break;
        }
      }
    }
    if (found) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(earliest.time_since_epoch())
          .count();
    }
  }
  return 0;
}

}  // namespace ebb::scheduling
