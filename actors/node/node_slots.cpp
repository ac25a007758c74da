#include "actors/node/node_slots.hpp"

#include <algorithm>
#include <set>

#include "actors/records.hpp"

namespace ebb::actors {
namespace {
constexpr scheduling::GpuMilli kWholeGpu = 1'000;

std::string cores_text(std::int64_t cpu_milli) { return gpus_text(cpu_milli) + " CPU"; }
std::string bytes_text(std::int64_t bytes) { return std::to_string(bytes) + " bytes"; }
}  // namespace

void NodeUse::add(const v1::PodOrder& order) {
  for (const v1::GpuShare& share : order.gpus()) gpus[share.gpu()] += share.gpu_milli();
  amount += amount_of(order.amount());
}

std::string why_not_bound(const v1::NodeFacts& facts, const NodeUse& use,
                          const v1::PodOrder& order) {
  const std::uint32_t count = static_cast<std::uint32_t>(facts.total().gpu_milli() / kWholeGpu);
  std::set<std::uint32_t> named;
  for (const v1::GpuShare& share : order.gpus()) {
    const std::string gpu = "gpu " + std::to_string(share.gpu());
    if (share.gpu() >= count) return gpu + " is not there: the node has " + std::to_string(count);
    if (!named.insert(share.gpu()).second) return gpu + " is named twice";
    if (share.gpu_milli() <= 0 || share.gpu_milli() > kWholeGpu) {
      return gpu + ": gpu_milli is " + std::to_string(share.gpu_milli()) + ", allowed 1 to 1000";
    }
    const auto& faulty = facts.faulty_gpus();
    if (std::find(faulty.begin(), faulty.end(), share.gpu()) != faulty.end()) {
      return gpu + " is faulty";
    }
    const auto held = use.gpus.find(share.gpu());
    const scheduling::GpuMilli taken = held == use.gpus.end() ? 0 : held->second;
    if (taken + share.gpu_milli() > kWholeGpu) {
      return gpu + " is taken: " + std::to_string(taken) + " of 1000 in use, " +
             std::to_string(share.gpu_milli()) + " wanted";
    }
  }
  const scheduling::Amount total = amount_of(facts.total());
  const scheduling::Amount wanted = amount_of(order.amount());
  const scheduling::Amount after = use.amount + wanted;
  if (!positive(wanted * -1).is_zero()) return "amount is negative";
  if (wanted.cpu_milli > 0 && after.cpu_milli > total.cpu_milli) {
    return cores_text(use.amount.cpu_milli) + " of " + gpus_text(total.cpu_milli) + " in use, " +
           cores_text(wanted.cpu_milli) + " wanted";
  }
  if (wanted.memory_bytes > 0 && after.memory_bytes > total.memory_bytes) {
    return bytes_text(use.amount.memory_bytes) + " of memory of " +
           std::to_string(total.memory_bytes) + " in use, " + bytes_text(wanted.memory_bytes) +
           " wanted";
  }
  return {};
}

}  // namespace ebb::actors
