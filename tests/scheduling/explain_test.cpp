#include "scheduling/explain/explain.hpp"

#include <doctest/doctest.h>

using namespace ebb::scheduling;  // NOLINT

TEST_CASE("explain: the rule that keeps a holder is named, and none where it may be taken") {
  const TakerRules parent{.quota = "root",
                          .priority = 9,
                          .below = true,
                          .below_products = {"DLC"},
                          .below_priority_at_most = 5};
  const TakerRules off{.quota = "root", .priority = 9};
  const TakerRules level{.quota = "a",
                         .priority = 6,
                         .same_level = true,
                         .preemptors = {6, 7},
                         .preempted = {1, 2, 3, 6}};
  struct Row {
    const char* name;
    TakerRules taker;
    HeldBy holder;
    const char* why;
  };
  const Row rows[] = {
      {"idle work may always be taken", off, {.relation = Relation::Elsewhere, .idle = true}, ""},
      {"a training below",
       parent,
       {.relation = Relation::Below, .product = "DLC", .priority = 5},
       ""},
      {"above the bound",
       parent,
       {.relation = Relation::Below, .product = "DLC", .priority = 6},
       "its priority 6 is above 5, the highest that quota root may take"},
      {"another product",
       parent,
       {.relation = Relation::Below, .product = "DSW", .priority = 1},
       "quota root may not take DSW from below it"},
      {"the switch is off",
       off,
       {.relation = Relation::Below, .product = "DLC"},
       "EnableSubQuotaPreemption of quota root is off"},
      {"strictly lower only",
       level,
       {.relation = Relation::SameQuota, .product = "DLC", .priority = 6},
       "its priority 6 is not below 6"},
      {"a sibling of a listed priority",
       level,
       {.relation = Relation::Beside, .product = "DLC", .priority = 3},
       ""},
      {"a priority that is not listed",
       level,
       {.relation = Relation::Beside, .product = "DLC", .priority = 4},
       "its priority 4 is none of the PreemptedPriorities of quota a"},
      {"elsewhere",
       level,
       {.relation = Relation::Elsewhere, .quota = "z"},
       "quota z is neither below quota a nor beside it"},
      {"within its least run",
       parent,
       {.relation = Relation::Below,
        .product = "DLC",
        .priority = 1,
        .ran_ms = 20'000,
        .min_run_ms = 60'000},
       "it has run for 20 of the 60 s that its quota promises it"},
      {"already leaving",
       parent,
       {.relation = Relation::Below, .product = "DLC", .leaving = true},
       "it is leaving already"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(why_not_taken(row.taker, row.holder) == row.why);
  }
}

TEST_CASE("explain: the expected start is when known releases reach what is needed") {
  struct Row {
    const char* name;
    std::int64_t free, needed, before;
    std::vector<Release> releases;
    std::int64_t at;  // -1: not known
  };
  const Row rows[] = {
      {"enough is free", 8'000, 8'000, 0, {}, 1'000},
      {"the second release makes it enough",
       0,
       16'000,
       0,
       {{.at_ms = 9'000, .gpu_milli = 8'000, .what = "b"},
        {.at_ms = 5'000, .gpu_milli = 8'000, .what = "a"}},
       9'000},
      {"those before it need theirs first",
       4'000,
       4'000,
       8'000,
       {{.at_ms = 5'000, .gpu_milli = 4'000, .what = "a"},
        {.at_ms = 7'000, .gpu_milli = 4'000, .what = "b"}},
       7'000},
      {"an overdue release is now",
       0,
       4'000,
       0,
       {{.at_ms = 500, .gpu_milli = 4'000, .what = "a"}},
       1'000},
      {"nothing known suffices",
       0,
       16'000,
       0,
       {{.at_ms = 5'000, .gpu_milli = 8'000, .what = "a"}},
       -1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Forecast forecast = forecast_start(1'000, row.free, row.needed, row.before, row.releases);
    CHECK(forecast.at_ms.value_or(-1) == row.at);
  }
}

TEST_CASE("explain: a victim's sentence says what it lost and what the next would have cost") {
  const VictimCost chosen{.idle = true, .priority = 3, .lost_gpu_s = 412};
  CHECK(why_this_victim(chosen, {}) ==
        "idle, priority 3, 412 GPU-s lost; no other could have been taken");
  const VictimCost dear{.idle = false, .priority = 1, .lost_gpu_s = 10};
  const VictimCost next{.idle = true, .priority = 3, .lost_gpu_s = 900};
  CHECK(why_this_victim(chosen, {dear, next}) ==
        "idle, priority 3, 412 GPU-s lost; of 2 others that could have been taken the cheapest is "
        "idle, priority 3, 900 GPU-s lost");
  CHECK(why_this_victim(dear, {chosen}) ==
        "in-quota, priority 1, 10 GPU-s lost; of 1 others that could have been taken the cheapest "
        "is idle, priority 3, 412 GPU-s lost, but it lies where it does not make room for the "
        "whole need");
}
