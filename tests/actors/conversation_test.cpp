#include "actors/conversation.hpp"

#include <doctest/doctest.h>

using ebb::actors::Conversation;
namespace v1 = ebb::v1;

namespace {
v1::Header sent(Conversation& from, std::int64_t mono_ms) {
  v1::Header header;
  from.stamp(&header, mono_ms);
  return header;
}
}  // namespace

TEST_CASE("conversation: a record is repeated until it is echoed, and no longer") {
  Conversation a(1), b(1);
  a.touch();
  CHECK(a.must_send(0));
  const v1::Header first = sent(a, 0);
  CHECK_FALSE(a.must_send(199));
  CHECK(a.must_send(200));
  CHECK(b.receive(first));
  CHECK(b.must_send(0));  // owes an echo
  const v1::Header echo = sent(b, 0);
  CHECK(a.receive(echo));
  CHECK(a.settled());
  CHECK(a.must_send(0));  // b's own record has to be echoed once
  CHECK_FALSE(b.receive(sent(a, 0)));
  CHECK_FALSE(a.must_send(10'000));
  CHECK_FALSE(b.must_send(10'000));
}

TEST_CASE("conversation: late and repeated records are ignored, repeats are answered") {
  Conversation a(1), b(1);
  a.touch();
  const v1::Header old = sent(a, 0);
  a.touch();
  const v1::Header newer = sent(a, 0);
  CHECK(b.receive(newer));
  (void)sent(b, 0);
  CHECK_FALSE(b.receive(old));
  CHECK_FALSE(b.receive(newer));
  CHECK(b.must_send(0));  // the echo was lost: answer again
}

TEST_CASE("conversation: a neighbour that comes back with a higher epoch hears the record again") {
  Conversation a(1), b(1);
  a.touch();
  (void)b.receive(sent(a, 0));
  (void)a.receive(sent(b, 0));
  CHECK(a.settled());
  Conversation reborn(2);
  reborn.touch();
  CHECK(a.receive(sent(reborn, 0)));
  CHECK_FALSE(a.settled());
  CHECK(a.must_send(0));
}

TEST_CASE("conversation: what a deposed owner says is neither read nor answered") {
  Conversation a(1);
  Conversation old_owner(1), new_owner(2);
  old_owner.touch();
  new_owner.touch();
  CHECK(a.receive(sent(new_owner, 0)));
  (void)sent(a, 0);
  CHECK_FALSE(a.receive(sent(old_owner, 0)));
  CHECK_FALSE(a.must_send(0));
}
