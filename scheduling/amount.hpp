// Amounts of resources: of one node type (Amount) and by node type (Amounts).
//
// Units: GPU and CPU in thousandths (a quarter GPU is 250), memory in bytes; sums are exact.
// Errors: none. Overflow is impossible for amounts that passed the API's bounds
// (scheduling/limits.hpp).
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ebb::scheduling {

using GpuMilli = std::int64_t;

struct Amount {
  GpuMilli gpu_milli = 0;
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;

  friend bool operator==(const Amount&, const Amount&) = default;
  Amount& operator+=(const Amount& o) {
    gpu_milli += o.gpu_milli;
    cpu_milli += o.cpu_milli;
    memory_bytes += o.memory_bytes;
    return *this;
  }
  Amount& operator-=(const Amount& o) {
    gpu_milli -= o.gpu_milli;
    cpu_milli -= o.cpu_milli;
    memory_bytes -= o.memory_bytes;
    return *this;
  }
  friend Amount operator+(Amount a, const Amount& b) { return a += b; }
  friend Amount operator-(Amount a, const Amount& b) { return a -= b; }
  friend Amount operator*(Amount a, std::int64_t n) {
    return {a.gpu_milli * n, a.cpu_milli * n, a.memory_bytes * n};
  }
  /// True if every dimension is at most the other's.
  bool fits(const Amount& room) const {
    return gpu_milli <= room.gpu_milli && cpu_milli <= room.cpu_milli &&
           memory_bytes <= room.memory_bytes;
  }
  bool is_zero() const { return gpu_milli == 0 && cpu_milli == 0 && memory_bytes == 0; }
  bool any_positive() const { return gpu_milli > 0 || cpu_milli > 0 || memory_bytes > 0; }
};

inline Amount min(const Amount& a, const Amount& b) {
  return {std::min(a.gpu_milli, b.gpu_milli), std::min(a.cpu_milli, b.cpu_milli),
          std::min(a.memory_bytes, b.memory_bytes)};
}
inline Amount max(const Amount& a, const Amount& b) {
  return {std::max(a.gpu_milli, b.gpu_milli), std::max(a.cpu_milli, b.cpu_milli),
          std::max(a.memory_bytes, b.memory_bytes)};
}
/// Negative dimensions raised to 0.
inline Amount positive(const Amount& a) { return max(a, Amount{}); }

/// Amounts by node type, sorted by name. A type that is absent is zero.
class Amounts {
 public:
  using Entry = std::pair<std::string, Amount>;
  Amounts() = default;
  Amounts(std::initializer_list<Entry> entries) {
    for (const Entry& e : entries) (*this)[e.first] += e.second;
  }
  Amount operator[](std::string_view type) const {
    const auto it = find(type);
    return it != entries_.end() && it->first == type ? it->second : Amount{};
  }
  Amount& operator[](std::string_view type) {
    auto it = std::lower_bound(entries_.begin(), entries_.end(), type, before);
    if (it == entries_.end() || it->first != type) {
      it = entries_.insert(it, {std::string(type), {}});
    }
    return it->second;
  }
  bool contains(std::string_view type) const {
    const auto it = find(type);
    return it != entries_.end() && it->first == type;
  }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  Amounts& operator+=(const Amounts& o) {
    for (const auto& [type, amount] : o.entries_) (*this)[type] += amount;
    return *this;
  }
  Amounts& operator-=(const Amounts& o) {
    for (const auto& [type, amount] : o.entries_) (*this)[type] -= amount;
    return *this;
  }
  friend Amounts operator+(Amounts a, const Amounts& b) { return a += b; }
  friend Amounts operator-(Amounts a, const Amounts& b) { return a -= b; }
  bool fits(const Amounts& room) const {
    for (const auto& [type, amount] : entries_) {
      if (!amount.fits(room[type])) return false;
    }
    return true;
  }
  GpuMilli gpu_milli() const {
    GpuMilli sum = 0;
    for (const auto& e : entries_) sum += e.second.gpu_milli;
    return sum;
  }

 private:
  static bool before(const Entry& e, std::string_view type) { return e.first < type; }
  std::vector<Entry>::const_iterator find(std::string_view type) const {
    return std::lower_bound(entries_.begin(), entries_.end(), type, before);
  }
  std::vector<Entry> entries_;
};

}  // namespace ebb::scheduling
