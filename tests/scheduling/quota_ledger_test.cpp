#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "scheduling/quota/ledger.hpp"
#include "scheduling/quota/recall.hpp"

using namespace ebb::scheduling;  // NOLINT

namespace {
Amount gpus(std::int64_t milli) { return {.gpu_milli = milli}; }
}  // namespace

TEST_CASE("ledger: a child returns free GPUs first, then what victims hold") {
  struct Row {
    const char* name;
    GpuMilli holding, used, leaving, coming, hold_at_most, now, from_victims;
  };
  const Row rows[] = {
      {"free units suffice", 48'000, 40'000, 0, 0, 40'000, 8'000, 0},
      {"victims make up the rest", 48'000, 44'000, 0, 0, 32'000, 4'000, 12'000},
      {"victims on their way count", 44'000, 44'000, 12'000, 0, 32'000, 0, 0},
      {"what children already owe counts", 44'000, 40'000, 0, 4'000, 36'000, 4'000, 0},
      {"a wish already met returns nothing", 40'000, 40'000, 0, 0, 40'000, 0, 0},
      {"a level above the holding returns nothing", 40'000, 10'000, 0, 0, 48'000, 0, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Account account{.holding = gpus(row.holding),
                          .booked = {},
                          .used = gpus(row.used),
                          .leaving = gpus(row.leaving)};
    const Restitution answer =
        decide_restitution(account, gpus(row.hold_at_most), gpus(row.coming));
    CHECK(answer.now.gpu_milli == row.now);
    CHECK(answer.from_victims.gpu_milli == row.from_victims);
  }
}

TEST_CASE("ledger: hearing a level twice returns nothing the second time") {
  CHECK(rc::check([] {
    const auto used = *rc::gen::inRange<std::int64_t>(0, 100'000);
    const auto unused = *rc::gen::inRange<std::int64_t>(0, 100'000);
    const auto level = *rc::gen::inRange<std::int64_t>(0, 200'000);
    Account account{
        .holding = gpus(used + unused), .booked = {}, .used = gpus(used), .leaving = {}};
    const Restitution first = decide_restitution(account, gpus(level), {});
    account.holding -= first.now;
    account.leaving += first.from_victims;
    RC_ASSERT(account.used.fits(account.holding));  // I1
    const Restitution second = decide_restitution(account, gpus(level), {});
    RC_ASSERT(second.now.is_zero());
    RC_ASSERT(second.from_victims.is_zero());
  }));
}

TEST_CASE(
    "recall: a plan's victims are asked for what they hold, the rest comes from unused units") {
  const std::vector<Lender> lenders = {
      {.booked = gpus(48'000), .used = gpus(40'000), .due = {}, .victims_held = gpus(16'000)},
      {.booked = gpus(80'000),
       .used = gpus(60'000),
       .due = {.unused = gpus(5'000), .victims = {}},
       .victims_held = {}},
  };
  const std::vector<Due> dues = decide_recall(lenders, gpus(30'000));
  CHECK(dues[0].victims.gpu_milli == 16'000);
  CHECK(dues[0].unused.gpu_milli == 8'000);
  CHECK(dues[1].unused.gpu_milli == 6'000);  // of 15 still spare
  CHECK(dues[1].victims.gpu_milli == 0);
}

TEST_CASE("recall: a return lowers booked and due alike, so the level stays") {
  CHECK(rc::check([] {
    const auto booked = *rc::gen::inRange<std::int64_t>(10, 1'000);
    const auto unused = *rc::gen::inRange<std::int64_t>(0, booked / 2);
    const auto victims = *rc::gen::inRange<std::int64_t>(0, booked / 2);
    const Due due{.unused = gpus(unused), .victims = gpus(victims)};
    const auto returned = *rc::gen::inRange<std::int64_t>(0, unused + victims + 1);
    const Due after = settle_due(due, gpus(returned));
    RC_ASSERT(booked - returned - after.total().gpu_milli == booked - due.total().gpu_milli);
  }));
}

TEST_CASE("recall: lifting dues spares victims before unused units and leaves what is needed") {
  Due first{.unused = gpus(4), .victims = gpus(8)};
  Due second{.unused = gpus(2), .victims = gpus(6)};
  lift_dues({&first, &second}, gpus(9));
  CHECK(first.victims.gpu_milli == 3);
  CHECK(second.victims.gpu_milli == 0);
  CHECK(first.unused.gpu_milli == 4);
  CHECK(second.unused.gpu_milli == 2);
}
