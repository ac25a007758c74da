// When a cron scaler fires: six-field cron expressions in a time zone.
//
// Fields: second(0-59) minute(0-59) hour(0-23) day-of-month(1-31) month(1-12, JAN-DEC)
// day-of-week(0-6, SUN-SAT). Each is `*`, a number or name, a range `a-b`, a step `*/n`, `a/n`
// (from a to the end) or `a-b/n`, or a list of these. Names may be written in either case.
// Where both day-of-month and day-of-week leave something out, a date matches if either does, as
// in every cron since Vixie's.
//
// Clock changes, also as Vixie's cron has them:
//   an expression whose hour field leaves something out means a time of the day. Falls that time
//   into the hour that is skipped in spring, it fires at the moment the clock jumps; falls it into
//   the hour that comes twice in autumn, it fires the first time only.
//   an expression with every hour means an interval: it fires in both of the repeated hours, and
//   what is skipped is not made up for.
//
// Exclude dates: an expression of the same form, of which the three day fields count: nothing fires
// on a date (in the schedule's zone) that one of them matches.
//
// Units: milliseconds since 1970 UTC. Errors: refusals that name the field and what is allowed.
// Source: api/NOTES.md "Cron scaler".
#pragma once
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace date {
class time_zone;
}

namespace ebb::scheduling {

/// One expression, without a zone.
struct CronExpression {
  std::bitset<60> seconds;
  std::bitset<60> minutes;
  std::bitset<24> hours;
  std::bitset<32> days_of_month;  // 1 to 31
  std::bitset<13> months;         // 1 to 12
  std::bitset<7> days_of_week;    // 0: Sunday

  bool matches_date(int month, int day_of_month, int day_of_week) const;
  bool every_hour() const { return hours.all(); }
};

/// `field`: how the request names it, for the refusal.
Result<CronExpression> parse_cron(std::string_view text, std::string_view field);
/// A name of the IANA list; empty: UTC.
Result<const date::time_zone*> parse_time_zone(std::string_view name, std::string_view field);

struct CronSchedule {
  CronExpression expression;
  const date::time_zone* zone = nullptr;
  std::vector<CronExpression> excluded;
};

/// The first firing later than `wall_ms`. None: nothing matches within the next 40 years (30
/// February, or all excluded).
std::optional<std::int64_t> next_after(const CronSchedule& schedule, std::int64_t wall_ms);
/// The last firing in (`after_ms`, `until_ms`]: what a process that was down has missed.
std::optional<std::int64_t> last_within(const CronSchedule& schedule, std::int64_t after_ms,
                                        std::int64_t until_ms);

}  // namespace ebb::scheduling
