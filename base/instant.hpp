// A moment as machines see it. Machines read no clock: each call brings its Instant.
//
// mono_ms: steady, of this process; for timers, grace periods, resends. Never saved.
// wall_ms: the cluster's clock, milliseconds since 1970 UTC; for cron, places in the queue, views.
// It may run faster
//          than real time (`--speed`), then `speed` tells how many wall milliseconds one mono
//          millisecond is.
#pragma once
#include <cstdint>

namespace ebb {
struct Instant {
  std::int64_t mono_ms = 0;
  std::int64_t wall_ms = 0;
  double speed = 1.0;

  /// The mono_ms at which the wall clock will show `wall`; now if it has passed. Rounded up.
  std::int64_t mono_at_wall(std::int64_t wall) const {
    if (wall <= wall_ms) return mono_ms;
    const double wait = static_cast<double>(wall - wall_ms) / speed;
    return mono_ms + static_cast<std::int64_t>(wait) + 1;
  }
};
}  // namespace ebb
