#include "cluster/clock.hpp"

#include <doctest/doctest.h>

#include "tests/cluster/scratch.hpp"

using namespace ebb::cluster;

TEST_CASE("clock: it shows base plus real time passed times speed") {
  const std::int64_t real = Clock::real_ms();
  const Clock fast(1'000'000, real - 10'000, 360.0);
  const auto now = fast.now();
  CHECK(now.wall_ms >= 1'000'000 + 3'600'000);
  CHECK(now.wall_ms < 1'000'000 + 3'600'000 + 360 * 60'000);
  CHECK(now.speed == 360.0);
  const Clock plain;
  CHECK(plain.wall_ms() - Clock::real_ms() <= 0);
  CHECK(Clock::real_ms() - plain.wall_ms() < 60'000);
}

TEST_CASE("clock: a restart continues the same clock; another speed goes on from where it stands") {
  const ebb::tests::Scratch scratch;
  const std::int64_t start = 1'772'407'800'000;
  const Clock first = *Clock::open(scratch.path(), 1000.0, start);
  CHECK(first.wall_ms() >= start);
  const Clock second = *Clock::open(scratch.path(), std::nullopt, start + 999'999'999);
  CHECK(second.speed() == 1000.0);
  const auto before = first.wall_ms(), shown = second.wall_ms(), after = first.wall_ms();
  CHECK(before <= shown);
  CHECK(shown <= after);
  const Clock slower = *Clock::open(scratch.path(), 1.0, std::nullopt);
  CHECK(slower.wall_ms() >= shown);
  CHECK(slower.wall_ms() < shown + 60'000'000);
  CHECK_FALSE(Clock::open(scratch.path(), 0.0, std::nullopt));
}

TEST_CASE("clock: a start is a time with its zone") {
  // 2026-03-02T07:30:00+08:00 is 2026-03-01T23:30:00Z, 1772407800 s after 1970 (date -d).
  constexpr std::int64_t kMoment = 1'772'407'800'000;
  CHECK(*parse_clock_start("2026-03-02T07:30:00+08:00", 0) == kMoment);
  CHECK(*parse_clock_start("2026-03-01T23:30:00Z", 0) == kMoment);
  CHECK(*parse_clock_start("2026-03-01T18:00:00-05:30", 0) == kMoment);
  // "Today" is the day in that zone: at 23:30Z it is already the 2nd in +08:00.
  CHECK(*parse_clock_start("07:30+08:00", kMoment) == kMoment);
  CHECK(*parse_clock_start("23:30Z", kMoment) == kMoment);
  for (const char* bad : {"", "7:30", "07:30", "25:00Z", "07:61Z", "2026-02-30T00:00:00Z",
                          "07:30+8", "07:30Zx", "2026-03-02 07:30:00Z", "07:30+15:00"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_clock_start(bad, kMoment));
  }
}
