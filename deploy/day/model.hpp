// A small real model to train: logistic regression by stochastic gradient descent on made-up data.
//
// Deterministic: the data come from the seed, and the batch of a step from its number. Training to
// step n in one go or in several parts with the weights carried over gives the same weights, which
// is how tests prove a true resume.
#pragma once
#include <array>
#include <cstdint>

namespace ebb::day {

inline constexpr int kFeatures = 16;

struct Model {
  std::array<double, kFeatures> weights{};
};

/// One step on the batch that belongs to (`seed`, `rank`, `step`). Returns the batch's mean loss
/// before the step.
double train_step(Model& model, std::uint64_t seed, std::uint32_t rank, std::uint64_t step);

}  // namespace ebb::day
