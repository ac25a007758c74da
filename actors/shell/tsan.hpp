// Tells ThreadSanitizer what it cannot see: that libcaf, which is not built with it, hands messages
// from thread to thread in order. Nothing in other builds.
#pragma once
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace ebb::actors {

#ifdef __SANITIZE_THREAD__
inline constexpr bool kUnderTsan = true;
inline void happens_before(void* at) { __tsan_release(at); }
inline void happens_after(void* at) { __tsan_acquire(at); }
#else
inline constexpr bool kUnderTsan = false;
inline void happens_before(void*) {}
inline void happens_after(void*) {}
#endif

/// Around what an actor does in one go: after all that was sent to it, before all it does next.
class InOrder {
 public:
  explicit InOrder(void* at) : at_(at) { happens_after(at_); }
  ~InOrder() { happens_before(at_); }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;

 private:
  void* const at_;
};

}  // namespace ebb::actors
