// The one source of chance in a simulated world: splitmix64. Same seed, same numbers, in every
// build.
#pragma once
#include <cstdint>

namespace ebb::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// From 0 to n - 1; 0 for n = 0.
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
  bool per_mille(std::uint32_t p) { return below(1000) < p; }

 private:
  std::uint64_t state_;
};

}  // namespace ebb::sim
