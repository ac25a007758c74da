#include "scheduling/quota/queue.hpp"

#include <doctest/doctest.h>

using namespace ebb::scheduling;  // NOLINT

TEST_CASE("queue: StrictFIFO stops at a blocked head, RoundRobin does not") {
  QueueWalk strict(QueuePolicy::StrictFifo);
  strict.blocked(1, true, 0);
  CHECK_FALSE(strict.may_try());
  QueueWalk round(QueuePolicy::RoundRobin);
  round.blocked(9, true, 0);
  CHECK(round.may_try());
}

TEST_CASE("queue: Balance lets one more pass after each step of waiting") {
  QueueWalk fresh(QueuePolicy::Balance);
  fresh.blocked(5, true, kBalanceStepMs - 1);
  CHECK_FALSE(fresh.may_try());
  QueueWalk waited(QueuePolicy::Balance);
  waited.blocked(5, true, kBalanceStepMs);
  CHECK(waited.may_try());
  waited.blocked(5, true, kBalanceStepMs);  // the second one needs twice the time
  CHECK_FALSE(waited.may_try());
}

TEST_CASE("queue: Intelligent is strict from priority 7 and skips below") {
  QueueWalk high(QueuePolicy::Intelligent);
  high.blocked(7, true, 0);
  CHECK_FALSE(high.may_try());
  QueueWalk low(QueuePolicy::Intelligent);
  low.blocked(6, true, 0);
  CHECK(low.may_try());
}

TEST_CASE("queue: Intelligent raises waiting work by one each step, up to 6") {
  CHECK(order_priority(QueuePolicy::Intelligent, 1, 0) == 1);
  CHECK(order_priority(QueuePolicy::Intelligent, 1, kAgeStepMs) == 2);
  CHECK(order_priority(QueuePolicy::Intelligent, 1, 100 * kAgeStepMs) == 6);
  CHECK(order_priority(QueuePolicy::Intelligent, 7, 100 * kAgeStepMs) == 7);
  CHECK(order_priority(QueuePolicy::RoundRobin, 1, 100 * kAgeStepMs) == 1);
}

TEST_CASE("queue: one that the quota could never hold blocks nobody") {
  QueueWalk strict(QueuePolicy::StrictFifo);
  strict.blocked(9, false, 0);
  CHECK(strict.may_try());
}

TEST_CASE("queue: an unknown strategy is refused with what is allowed") {
  const auto answer = parse_queue_policy("Fifo");
  REQUIRE_FALSE(answer);
  CHECK(answer.refusal().message.find("QueueStrategy \"Fifo\"") == 0);
  CHECK(answer.refusal().message.find("PaiStrategyStrictFIFO") != std::string::npos);
  CHECK(*parse_queue_policy("") == QueuePolicy::Intelligent);
}
