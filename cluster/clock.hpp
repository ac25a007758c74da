// The cluster's clock: what machines are told as Instant (base/instant.hpp). It may run `speed`
// times faster than real time and start at any moment: wall = base_wall + (real - base_real) *
// speed. The base is kept in the data directory, so that a restarted process continues the same
// clock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/instant.hpp"
#include "base/result.hpp"

namespace ebb::cluster {

class Clock {
 public:
  /// Real time.
  Clock() = default;
  Clock(std::int64_t base_wall_ms, std::int64_t base_real_ms, double speed)
      : base_wall_ms_(base_wall_ms), base_real_ms_(base_real_ms), speed_(speed) {}
  Instant now() const;
  std::int64_t wall_ms() const { return now().wall_ms; }
  double speed() const { return speed_; }
  static std::int64_t mono_ms();
  static std::int64_t real_ms();

  /// The clock kept in DIRECTORY/clock, or a new one, which is then kept. `speed` and
  /// `start_wall_ms` given for a kept clock: another speed goes on from the moment it shows now; a
  /// start is for a new clock only and ignored otherwise.
  static Result<Clock> open(const std::string& directory, std::optional<double> speed,
                            std::optional<std::int64_t> start_wall_ms);

 private:
  std::int64_t base_wall_ms_ = 0;
  std::int64_t base_real_ms_ = 0;
  double speed_ = 1.0;
};

/// Milliseconds since 1970 UTC of "2026-03-02T07:30:00+08:00", "2026-03-02T07:30:00Z", or of
/// "07:30+08:00" and "07:30Z", which mean today (by `real_ms`) in that zone.
Result<std::int64_t> parse_clock_start(const std::string& text, std::int64_t real_ms);

}  // namespace ebb::cluster
