#include "deploy/day/model.hpp"

#include <cmath>

namespace ebb::day {
namespace {

constexpr int kBatch = 64;
constexpr double kLearningRate = 0.05;

/// splitmix64: a fixed stream for each start, the same on every machine.
class Stream {
 public:
  explicit Stream(std::uint64_t start) : state_(start) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  /// Uniform in [-1, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-52 - 1.0; }

 private:
  std::uint64_t state_;
};

using Vector = std::array<double, kFeatures>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (int i = 0; i < kFeatures; ++i) sum += a[i] * b[i];
  return sum;
}

Vector uniform_vector(Stream& stream) {
  Vector vector;
  for (double& x : vector) x = stream.uniform();
  return vector;
}

}  // namespace

double train_step(Model& model, std::uint64_t seed, std::uint32_t rank, std::uint64_t step) {
  Stream truth_stream(seed);
  const Vector truth = uniform_vector(truth_stream);
  Stream stream(seed ^ (step * 0x100000001B3ULL) ^ (static_cast<std::uint64_t>(rank) << 48));
  Vector gradient{};
  double loss = 0;
  for (int sample = 0; sample < kBatch; ++sample) {
    const Vector x = uniform_vector(stream);
    const double label = dot(truth, x) > 0 ? 1.0 : 0.0;
    const double p = 1.0 / (1.0 + std::exp(-dot(model.weights, x)));
    loss -= std::log((label > 0.5 ? p : 1.0 - p) + 1e-12);
    for (int i = 0; i < kFeatures; ++i) gradient[i] += (p - label) * x[i];
  }
  for (int i = 0; i < kFeatures; ++i) model.weights[i] -= kLearningRate * gradient[i];
  return loss / kBatch;
}

}  // namespace ebb::day
