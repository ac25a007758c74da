#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace ebb {
void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}
}  // namespace ebb
