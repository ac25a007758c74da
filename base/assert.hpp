// EBB_ASSERT: a broken promise of our own code ends the program, in every build. What was
// acknowledged is in the store, so stopping loses nothing. Input from outside is never asserted; it
// is checked and refused.
#pragma once

namespace ebb {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}  // namespace ebb

#define EBB_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::ebb::assertion_failed(#condition, __FILE__, __LINE__))
