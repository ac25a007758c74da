#include "scheduling/cron/cron.hpp"

#include <date/tz.h>

#include <algorithm>

#include "base/nearest.hpp"

namespace ebb::scheduling {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;
constexpr std::int64_t kSearchSeconds = 40 * 366 * kDaySeconds;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

template <std::size_t N>
std::size_t first_set_from(const std::bitset<N>& bits, std::size_t from) {
  while (from < N && !bits.test(from)) ++from;
  return from;
}

/// The first matching second of the day at or after `from`; kDaySeconds if none.
std::int64_t time_of_day_from(const CronExpression& fields, std::int64_t from) {
  std::size_t hour = static_cast<std::size_t>(from / 3600);
  std::size_t minute = static_cast<std::size_t>(from / 60 % 60);
  std::size_t second = static_cast<std::size_t>(from % 60);
  for (; (hour = first_set_from(fields.hours, hour)) < 24; ++hour, minute = 0, second = 0) {
    if (hour > static_cast<std::size_t>(from / 3600)) minute = second = 0;
    for (; (minute = first_set_from(fields.minutes, minute)) < 60; ++minute, second = 0) {
      if (hour * 60 + minute > static_cast<std::size_t>(from / 60)) second = 0;
      second = first_set_from(fields.seconds, second);
      if (second < 60) return static_cast<std::int64_t>((hour * 60 + minute) * 60 + second);
    }
  }
  return kDaySeconds;
}

bool fires_on(const CronSchedule& schedule, std::int64_t local_day) {
  const date::local_days day{date::days{local_day}};
  const date::year_month_day ymd{day};
  const int month = static_cast<int>(static_cast<unsigned>(ymd.month()));
  const int day_of_month = static_cast<int>(static_cast<unsigned>(ymd.day()));
  const int day_of_week = static_cast<int>(date::weekday{day}.c_encoding());
  const auto matches = [&](const CronExpression& fields) {
    return fields.matches_date(month, day_of_month, day_of_week);
  };
  return matches(schedule.expression) &&
         std::none_of(schedule.excluded.begin(), schedule.excluded.end(), matches);
}

/// The first match in [from, before), in seconds of local time, as if no clock ever changed.
std::optional<std::int64_t> next_local(const CronSchedule& schedule, std::int64_t from,
                                       std::int64_t before) {
  while (from < before) {
    const std::int64_t day = floor_div(from, kDaySeconds);
    if (fires_on(schedule, day)) {
      const std::int64_t second = time_of_day_from(schedule.expression, from - day * kDaySeconds);
      if (second < kDaySeconds) {
        const std::int64_t found = day * kDaySeconds + second;
        return found < before ? std::optional(found) : std::nullopt;
      }
    }
    from = (day + 1) * kDaySeconds;
  }
  return {};
}

}  // namespace

Result<const date::time_zone*> parse_time_zone(std::string_view name, std::string_view field) {
  if (name.empty()) name = "UTC";
  try {
    return date::locate_zone(std::string(name));
  } catch (const std::exception&) {  // the library's way to say that there is none
    std::vector<std::string> known;
    for (const date::time_zone& zone : date::get_tzdb().zones) known.push_back(zone.name());
    return Refusal{"InvalidParameter", std::string(field) + " is \"" +
                                           std::string(name.substr(0, 60)) +
                                           "\"; allowed are names of the IANA time zone list, for "
                                           "instance Asia/Shanghai" +
                                           did_you_mean(name, known)};
  }
}

std::optional<std::int64_t> next_after(const CronSchedule& schedule, std::int64_t wall_ms) {
  std::int64_t from = floor_div(wall_ms, 1000) + 1;  // firings lie on whole seconds
  const std::int64_t give_up = from + kSearchSeconds;
  // Between two changes of the clock local time is UTC plus an offset, so each such span is
  // searched as plain local time; its beginning needs care.
  while (from < give_up) {
    const date::sys_info span =
        schedule.zone->get_info(date::sys_seconds{std::chrono::seconds{from}});
    const std::int64_t begin = span.begin.time_since_epoch().count();
    const std::int64_t end = std::min(span.end.time_since_epoch().count(), give_up);
    const std::int64_t offset = span.offset.count();
    std::int64_t search_from = from + offset;
    const bool has_change = begin > -give_up;  // the first span of a zone begins with the world
    if (has_change && !schedule.expression.every_hour()) {
      const std::int64_t offset_before =
          schedule.zone->get_info(date::sys_seconds{std::chrono::seconds{begin - 1}})
              .offset.count();
      const bool skipped = offset > offset_before;
      if (skipped && from == begin && next_local(schedule, begin + offset_before, begin + offset)) {
        return begin * 1000;
      }
      // What the clock shows for the second time has had its turn.
      if (!skipped) search_from = std::max(search_from, begin + offset_before);
    }
    if (const auto found = next_local(schedule, search_from, end + offset))
      return (*found - offset) * 1000;
    from = end;
  }
  return {};
}

std::optional<std::int64_t> last_within(const CronSchedule& schedule, std::int64_t after_ms,
                                        std::int64_t until_ms) {
  // Looks back over windows that double, so that the cost does not grow with how long ago
  // `after_ms` is but with how rarely it fires.
  for (std::int64_t window = 60'000;; window *= 2) {
    const std::int64_t start = std::max(after_ms, until_ms - window);
    std::optional<std::int64_t> last;
    for (auto next = next_after(schedule, start); next && *next <= until_ms;
         next = next_after(schedule, *next)) {
      last = next;
    }
    if (last || start == after_ms) return last;
  }
}

}  // namespace ebb::scheduling
