// Six-field cron: second minute hour day-of-month month day-of-week, in a time zone.
//
// Units: milliseconds since 1970 UTC, whole seconds.
// Errors: a refusal names the field, its value and what is allowed.
// Source: api/NOTES.md "Services". Each field is `*`, a value, `a-b`, `a,b`, or any of them with
// `/step`; months also JAN to DEC, days of the week 0 to 6 (0 Sunday; 7 too) also SUN to SAT; `?`
// stands for `*` in the two day fields. Where both day fields are restricted, a day that matches
// either fires, as in Vixie cron. Daylight saving: a local time that does not exist is skipped; one
// that comes twice fires the first time only.
#pragma once
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace date {
class time_zone;
}

namespace ebb::scheduling {

struct CronExpression {
  std::bitset<60> seconds, minutes;
  std::bitset<24> hours;
  std::bitset<32> days;     // 1 to 31
  std::bitset<13> months;   // 1 to 12
  std::bitset<7> weekdays;  // 0 Sunday
  bool any_day = false;     // day-of-month is `*`
  bool any_weekday = false;
};
/// `field`: how the request names it, for the refusal.
Result<CronExpression> parse_cron(std::string_view text, std::string_view field);
/// Empty: UTC.
Result<const date::time_zone*> parse_time_zone(const std::string& name, std::string_view field);
/// The first moment after `wall_ms` at which it fires and whose local day no exclusion matches; 0
/// if none in five years.
std::int64_t next_after(const CronExpression& cron, const date::time_zone* zone,
                        const std::vector<CronExpression>& excluded, std::int64_t wall_ms);

}  // namespace ebb::scheduling
