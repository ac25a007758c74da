#include "cluster/clock.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "cluster/private_file.hpp"

namespace ebb::cluster {
namespace {
template <class C>
std::int64_t ms_of() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(C::now().time_since_epoch()).count();
}
}  // namespace

std::int64_t Clock::mono_ms() { return ms_of<std::chrono::steady_clock>(); }
std::int64_t Clock::real_ms() { return ms_of<std::chrono::system_clock>(); }

Instant Clock::now() const {
  const double passed = static_cast<double>(real_ms() - base_real_ms_) * speed_;
  return {.mono_ms = mono_ms(),
          .wall_ms = base_wall_ms_ + static_cast<std::int64_t>(passed),
          .speed = speed_};
}

Result<Clock> Clock::open(const std::string& directory, std::optional<double> speed,
                          std::optional<std::int64_t> start_wall_ms) {
  if (speed && !(*speed >= 0.001 && *speed <= 100'000)) {
    return Refusal{"InvalidParameter",
                   "speed is " + std::to_string(*speed) + ", allowed is 0.001 to 100000"};
  }
  const std::string path = directory + "/clock";
  const std::int64_t real = real_ms();
  Clock clock;
  if (std::ifstream file(path); file) {
    if (!(file >> clock.base_wall_ms_ >> clock.base_real_ms_ >> clock.speed_)) {
      return Refusal{"ClockFile", path + " does not hold `base_wall_ms base_real_ms speed`", 500};
    }
    if (!speed || *speed == clock.speed_) return clock;
    clock = Clock(clock.now().wall_ms, real, *speed);
  } else {
    clock = Clock(start_wall_ms.value_or(real), real, speed.value_or(1.0));
  }
  char speed_text[64];
  std::snprintf(speed_text, sizeof speed_text, "%.17g", clock.speed_);
  auto written =
      write_private_file(path, std::to_string(clock.base_wall_ms_) + " " +
                                   std::to_string(clock.base_real_ms_) + " " + speed_text + "\n");
  if (!written) return written.refusal();
  return clock;
}

Result<std::int64_t> parse_clock_start(const std::string& text, std::int64_t real_ms) {
  using namespace std::chrono;
  const Refusal bad{
      "InvalidParameter",
      "clock start is \"" + text + "\", allowed is a time as 2026-03-02T07:30:00+08:00 or 07:30Z"};
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, used = 0;
  const bool dated = std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &year, &month, &day,
                                 &hour, &minute, &second, &used) == 6 &&
                     used == 19;
  if (!dated) {
    second = 0;
    used = 0;
    if (std::sscanf(text.c_str(), "%2d:%2d%n", &hour, &minute, &used) != 2 || used != 5) return bad;
  }
  const std::string zone = text.substr(static_cast<std::size_t>(used));
  minutes offset{0};
  if (zone != "Z") {
    int zone_hour = 0, zone_minute = 0;
    char sign = 0;
    used = 0;
    if (std::sscanf(zone.c_str(), "%c%2d:%2d%n", &sign, &zone_hour, &zone_minute, &used) != 3 ||
        used != static_cast<int>(zone.size()) || zone.size() != 6 || (sign != '+' && sign != '-') ||
        zone_hour > 14 || zone_minute > 59) {
      return bad;
    }
    offset = hours(zone_hour) + minutes(zone_minute);
    if (sign == '-') offset = -offset;
  }
  if (hour > 23 || hour < 0 || minute > 59 || minute < 0 || second > 59 || second < 0) return bad;
  sys_days date;
  if (dated) {
    const year_month_day given{std::chrono::year(year),
                               std::chrono::month(static_cast<unsigned>(month)),
                               std::chrono::day(static_cast<unsigned>(day))};
    if (!given.ok()) return bad;
    date = sys_days(given);
  } else {
    date = floor<days>(sys_time<milliseconds>(milliseconds(real_ms)) + offset);
  }
  const auto moment = date + hours(hour) + minutes(minute) + seconds(second) - offset;
  return duration_cast<milliseconds>(moment.time_since_epoch()).count();
}

}  // namespace ebb::cluster
