#include "scheduling/cron/cron.hpp"

#include <date/date.h>
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

using namespace ebb::scheduling;  // NOLINT

namespace {

/// "2026-03-29T01:00:00" UTC.
std::int64_t utc(const std::string& text) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  REQUIRE(std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d", &year, &month, &day, &hour, &minute,
                      &second) == 6);
  const date::sys_days date = date::year{year} / month / day;
  const std::int64_t days = date.time_since_epoch().count();
  return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000;
}
std::string text_of(std::optional<std::int64_t> wall_ms) {
  if (!wall_ms) return "never";
  return date::format("%FT%T", date::sys_seconds{std::chrono::seconds{*wall_ms / 1000}});
}
CronSchedule a_schedule(const std::string& expression, const std::string& zone,
                        const std::vector<std::string>& exclude = {}) {
  const auto parsed = parse_cron(expression, "Schedule");
  REQUIRE_MESSAGE(parsed, expression);
  CronSchedule schedule;
  schedule.expression = *parsed;
  schedule.zone = *parse_time_zone(zone, "TimeZone");
  for (const std::string& text : exclude) {
    schedule.excluded.push_back(*parse_cron(text, "ExcludeDates"));
  }
  return schedule;
}
std::string refusal_of(const std::string& expression) {
  const auto parsed = parse_cron(expression, "ScaleJobs[1].Schedule");
  return parsed ? "accepted" : parsed.refusal().message;
}
std::string zone_refusal_of(const std::string& name) {
  const auto parsed = parse_time_zone(name, "TimeZone");
  return parsed ? "accepted" : parsed.refusal().message;
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("cron: the next firing is strictly later, in the schedule's own zone") {
  struct Row {
    const char* name;
    const char* expression;
    const char* zone;
    const char* after;
    const char* fires;
  };
  const Row rows[] = {
      {"08:00 in Shanghai is midnight UTC", "0 0 8 * * *", "Asia/Shanghai", "2026-12-01T12:00:00",
       "2026-12-02T00:00:00"},
      {"the moment itself has passed", "0 0 8 * * *", "Asia/Shanghai", "2026-12-02T00:00:00",
       "2026-12-03T00:00:00"},
      {"an offset of a half hour", "0 0 9 * * *", "Asia/Kolkata", "2026-12-01T00:00:00",
       "2026-12-01T03:30:00"},
      {"working days only: 5 December 2026 is a Saturday", "0 0 8 * * MON-FRI", "UTC",
       "2026-12-04T08:00:00", "2026-12-07T08:00:00"},
      {"a step with a start", "0 5/20 * * * *", "UTC", "2026-12-01T10:26:00",
       "2026-12-01T10:45:00"},
      {"29 February is looked for over years", "0 0 0 29 2 *", "UTC", "2026-01-01T00:00:00",
       "2028-02-29T00:00:00"},
      {"either day field suffices where both are given: 4 December is a Friday", "0 0 0 10 * FRI",
       "UTC", "2026-12-01T00:00:00", "2026-12-04T00:00:00"},
      {"names in either case", "0 0 0 1 jan *", "UTC", "2026-12-01T00:00:00",
       "2027-01-01T00:00:00"},
      {"30 February never comes", "0 0 0 30 2 *", "UTC", "2026-01-01T00:00:00", "never"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(text_of(next_after(a_schedule(row.expression, row.zone), utc(row.after))) == row.fires);
  }
}

TEST_CASE("cron: a time of day that spring skips fires when the clock jumps") {
  // Berlin, 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC.
  const auto daily = a_schedule("0 30 2 * * *", "Europe/Berlin");
  CHECK(text_of(next_after(daily, utc("2026-03-28T12:00:00"))) == "2026-03-29T01:00:00");
  CHECK(text_of(next_after(daily, utc("2026-03-29T01:00:00"))) == "2026-03-30T00:30:00");
  // An interval does not make up for it.
  const auto hourly = a_schedule("0 30 * * * *", "Europe/Berlin");
  CHECK(text_of(next_after(hourly, utc("2026-03-29T00:30:00"))) == "2026-03-29T01:30:00");
  // A whole day that an island skipped: Samoa had no 30 December 2011.
  const auto samoa = a_schedule("0 0 8 30 12 *", "Pacific/Apia");
  CHECK(text_of(next_after(samoa, utc("2011-12-29T00:00:00"))) == "2011-12-30T10:00:00");
}

TEST_CASE("cron: a time of day that autumn repeats fires once, an interval fires in both hours") {
  // Berlin, 25 October 2026: 03:00 becomes 02:00 at 01:00 UTC.
  const auto daily = a_schedule("0 30 2 * * *", "Europe/Berlin");
  CHECK(text_of(next_after(daily, utc("2026-10-24T12:00:00"))) == "2026-10-25T00:30:00");
  CHECK(text_of(next_after(daily, utc("2026-10-25T00:30:00"))) == "2026-10-26T01:30:00");
  // Also for a process that began in the repeated hour.
  CHECK(text_of(next_after(daily, utc("2026-10-25T01:10:00"))) == "2026-10-26T01:30:00");
  const auto hourly = a_schedule("0 30 * * * *", "Europe/Berlin");
  CHECK(text_of(next_after(hourly, utc("2026-10-25T00:30:00"))) == "2026-10-25T01:30:00");
}

TEST_CASE("cron: nothing fires on an excluded date, whatever time the exclusion states") {
  const auto schedule =
      a_schedule("0 0 8 * * *", "Asia/Shanghai", {"0 0 0 1-7 10 *", "* * * * * SAT"});
  // 1 to 7 October is excluded, 8 October 2026 is a Thursday.
  CHECK(text_of(next_after(schedule, utc("2026-09-30T00:00:00"))) == "2026-10-08T00:00:00");
  CHECK(text_of(next_after(schedule, utc("2026-10-09T00:00:00"))) == "2026-10-11T00:00:00");
  CHECK(text_of(next_after(a_schedule("0 0 8 * * *", "UTC", {"* * * * * *"}), 0)) == "never");
}

TEST_CASE("cron: the last missed firing is found, however long ago") {
  const auto daily = a_schedule("0 0 22 * * *", "UTC");
  const auto last = [&](const char* after, const char* until) {
    return text_of(last_within(daily, utc(after), utc(until)));
  };
  CHECK(last("2026-12-01T21:00:00", "2026-12-01T22:00:00") == "2026-12-01T22:00:00");
  CHECK(last("2026-12-01T22:00:00", "2026-12-02T21:59:59") == "never");
  CHECK(last("2020-01-01T00:00:00", "2026-12-02T21:00:00") == "2026-12-01T22:00:00");
  const auto every_second = a_schedule("* * * * * *", "UTC");
  CHECK(text_of(last_within(every_second, 0, utc("2026-12-02T21:00:00"))) == "2026-12-02T21:00:00");
}

TEST_CASE("cron: a refusal names the field, its value and what is allowed") {
  CHECK(contains(refusal_of("0 8 * * *"), "it has 5 fields; a cron expression has six"));
  CHECK(contains(refusal_of("0 0 8 * * * 2026"), "it has 7 fields"));
  CHECK(contains(refusal_of(""), "it has 0 fields"));
  CHECK(contains(refusal_of("60 0 8 * * *"), "field 1 (second) is \"60\""));
  CHECK(contains(refusal_of("60 0 8 * * *"), "0-59"));
  CHECK(contains(refusal_of("0 0 24 * * *"), "field 3 (hour) is \"24\""));
  CHECK(contains(refusal_of("0 0 8 0 * *"), "field 4 (day-of-month)"));
  CHECK(contains(refusal_of("0 0 8 * FOO *"), "1-12 or JAN-DEC"));
  CHECK(contains(refusal_of("0 0 8 * * 7"), "0-6 or SUN-SAT"));
  CHECK(contains(refusal_of("0 0 8 * * FRI-MON"), "ends before it begins"));
  CHECK(contains(refusal_of("*/0 * * * * *"), "step \"0\" is not a number from 1 to 60"));
  CHECK(contains(refusal_of("0 0 -8 * * *"), "field 3 (hour)"));
  CHECK(contains(refusal_of("0 0 99999999999999999999 * * *"), "field 3 (hour)"));
  CHECK(contains(refusal_of("0 0 8, * * *"), "field 3 (hour)"));
  CHECK(contains(refusal_of(std::string(5000, '*')), "longer than 1024 characters"));
  CHECK(contains(zone_refusal_of("Asia/Shangai"), "did you mean Asia/Shanghai?"));
  CHECK(contains(zone_refusal_of("../../etc/passwd"), "IANA"));
  CHECK(contains(refusal_of("0 8 * * *"), "ScaleJobs[1].Schedule"));
  CHECK(parse_cron("", "Schedule").refusal().code == "InvalidParameter");
}

namespace {

class RandomCron {
 public:
  explicit RandomCron(std::uint32_t seed) : random_(seed) {}
  int number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  /// Where both day fields are given, only days that every month has: croniter takes 31 April with
  /// a day of the week for a date that never comes.
  std::string expression() {
    const std::string day_of_week = field(0, 6);
    return field(0, 59) + " " + field(0, 59) + " " + field(0, 23) + " " +
           field(1, day_of_week == "*" ? 31 : 28) + " " + field(1, 12) + " " + day_of_week;
  }
  template <class List>
  const auto& one_of(const List& list) {
    return list[static_cast<std::size_t>(number(0, static_cast<int>(std::size(list)) - 1))];
  }

 private:
  std::string field(int least, int most) {
    const auto some = [&] { return std::to_string(number(least, most)); };
    switch (number(0, 9)) {
      case 0:
      case 1:
        return some();
      case 2:
        return some() + "," + some() + "," + some();
      case 3: {
        const int from = number(least, most);
        return std::to_string(from) + "-" + std::to_string(number(from, most));
      }
      case 4:
        // Not 1: croniter does not count */1 as every day where it decides on "either day field".
        return "*/" + std::to_string(number(2, 6));
      case 5: {
        const int from = number(least, most);
        return std::to_string(from) + "-" + std::to_string(number(from, most)) + "/" +
               std::to_string(number(1, 5));
      }
      default:
        return "*";
    }
  }
  std::mt19937 random_;
};

struct Case {
  std::string zone;
  std::int64_t start_ms;
  std::string expression;
};

/// What croniter says of each; empty where it is not installed.
std::vector<std::string> croniter_says(const std::vector<Case>& cases) {
  const std::filesystem::path batch =
      std::filesystem::temp_directory_path() / ("ebb_cron_" + std::to_string(::getpid()) + ".txt");
  {
    std::ofstream out(batch);
    for (const Case& one : cases) {
      out << one.zone << '|' << one.start_ms << '|' << one.expression << '\n';
    }
  }
  const std::string command =
      "/usr/bin/python3 " EBB_SOURCE_DIR "/tests/scheduling/cron_oracle.py " + batch.string();
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  REQUIRE(pipe);
  std::vector<std::string> answers;
  char line[64];
  while (std::fgets(line, sizeof line, pipe.get()) != nullptr) {
    answers.emplace_back(line);
    answers.back().pop_back();
  }
  std::filesystem::remove(batch);
  return answers;
}

}  // namespace

TEST_CASE("cron: agrees with croniter on random expressions in several zones") {
  const std::vector<std::string> zones = {"UTC",
                                          "Asia/Shanghai",
                                          "Europe/Berlin",
                                          "Asia/Kolkata",
                                          "America/New_York",
                                          "Australia/Sydney",
                                          "Pacific/Chatham",
                                          "America/St_Johns"};
  RandomCron random(20261201);
  std::vector<Case> cases;
  for (int i = 0; i < 800; ++i) {
    const std::int64_t start_s =
        utc("2024-01-01T00:00:00") / 1000 + random.number(0, 4 * 365 * 86'400);
    cases.push_back({random.one_of(zones), start_s * 1000, random.expression()});
  }
  const std::vector<std::string> answers = croniter_says(cases);
  REQUIRE(answers.size() == cases.size());
  int compared = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (answers[i] == "unsure") continue;
    ++compared;
    CAPTURE(cases[i].zone);
    CAPTURE(cases[i].expression);
    CAPTURE(text_of(cases[i].start_ms));
    const auto mine = next_after(a_schedule(cases[i].expression, cases[i].zone), cases[i].start_ms);
    CHECK((mine ? std::to_string(*mine) : "none") == answers[i]);
  }
  CHECK(compared > 700);
}
