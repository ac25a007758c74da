#include "sim/soak/network.hpp"

#include <algorithm>

namespace ebb::sim {
namespace {
constexpr std::size_t kPastMost = 4096;
constexpr std::int64_t kHeavyTailMostMs = 60'000;
constexpr std::uint32_t kDropMost = 500;

std::uint64_t mixed(std::uint64_t word) { return Random(word).next(); }
}  // namespace

int kind_of(const v1::Envelope& envelope) {
  const int payload = static_cast<int>(envelope.payload_case()) * 16;
  switch (envelope.payload_case()) {
    case v1::Envelope::kQuota:
      return payload + static_cast<int>(envelope.quota().message_case());
    case v1::Envelope::kPool:
      return payload + static_cast<int>(envelope.pool().message_case());
    case v1::Envelope::kWorkload:
      return payload + static_cast<int>(envelope.workload().message_case());
    case v1::Envelope::kNode:
      return payload + static_cast<int>(envelope.node().message_case());
    case v1::Envelope::kTenant:
      return payload + static_cast<int>(envelope.tenant().message_case());
    default:
      return payload;
  }
}

std::string name_of_kind(const v1::Envelope& envelope) {
  static const std::map<int, const char*> kNames = {{10 * 16 + 1, "ParentTerms"},
                                                    {10 * 16 + 2, "ChildClaims"},
                                                    {10 * 16 + 3, "ClaimDemand"},
                                                    {10 * 16 + 4, "ClaimAnswer"},
                                                    {10 * 16 + 5, "PoolCapacity"},
                                                    {10 * 16 + 6, "QuotaCommand"},
                                                    {11 * 16 + 1, "PlaceClaim"},
                                                    {11 * 16 + 2, "QuotaFacts"},
                                                    {11 * 16 + 3, "ClaimUse"},
                                                    {11 * 16 + 4, "NodeState"},
                                                    {11 * 16 + 5, "PoolTerms"},
                                                    {11 * 16 + 6, "PoolCommand"},
                                                    {12 * 16 + 1, "ClaimTerms"},
                                                    {12 * 16 + 2, "ClaimPlacement"},
                                                    {12 * 16 + 3, "PodReports"},
                                                    {12 * 16 + 4, "WorkloadCommand"},
                                                    {13 * 16 + 1, "PodOrders"},
                                                    {13 * 16 + 2, "NodeTerms"},
                                                    {13 * 16 + 3, "NodeBinding"},
                                                    {13 * 16 + 4, "ProcessReport"},
                                                    {14 * 16 + 1, "NodeState"},
                                                    {14 * 16 + 2, "TenantCommand"},
                                                    {14 * 16 + 3, "PoolEcho"},
                                                    {15 * 16, "WorkspaceCommand"},
                                                    {16 * 16, "Reply"},
                                                    {17 * 16, "LauncherInbox"}};
  const auto found = kNames.find(kind_of(envelope));
  return found == kNames.end() ? "?" : found->second;
}

Network::Network(const NetPlan& plan, std::uint64_t seed, World& world)
    : plan_(plan), world_(world), seed_(mixed(seed)), random_(seed ^ 0x5eed) {
  world_.on_post = [this](const EnvelopePtr& envelope, std::vector<std::int64_t>* waits) {
    decide(envelope, waits);
  };
  world_.passes = [this](ProcessId from, ProcessId to) { return cut_.count({from, to}) == 0; };
}

void Network::heal() {
  plan_ = {};
  cut_.clear();
  past_.clear();
}

void Network::cut(ProcessId from, ProcessId to, bool is_cut) {
  int& count = cut_[{from, to}];
  count += is_cut ? 1 : -1;
  if (count <= 0) cut_.erase({from, to});
}

std::uint32_t Network::badness(const v1::Envelope& envelope) {
  static constexpr std::uint32_t kLink[] = {0, 50, 100, 150};
  static constexpr std::uint32_t kKind[] = {0, 100, 100, 200};
  const std::uint64_t link =
      mixed(seed_ ^ (static_cast<std::uint64_t>(world_.process_of(envelope.from())) << 32) ^
            world_.process_of(envelope.to()));
  const std::uint64_t kind = mixed(seed_ + 77 * static_cast<std::uint64_t>(kind_of(envelope)));
  return kLink[link % 4] * kKind[kind % 4] / 100;
}

void Network::decide(const EnvelopePtr& envelope, std::vector<std::int64_t>* waits) {
  Counters& counters = world_.counters();
  if (plan_.replay_per_mille > 0) {
    if (!past_.empty() && random_.per_mille(plan_.replay_per_mille)) {
      ++counters.replayed;
      world_.post_again(past_[random_.below(past_.size())], 1);
    }
    past_.push_back(envelope);
    if (past_.size() > kPastMost) past_.pop_front();
  }
  if (plan_.drop_per_mille > 0 || plan_.double_per_mille > 0) {
    const std::uint32_t bad = badness(*envelope);
    if (random_.per_mille(std::min(kDropMost, plan_.drop_per_mille * bad / 100))) {
      ++counters.dropped;
      waits->clear();
      return;
    }
    if (random_.per_mille(plan_.double_per_mille * bad / 100)) {
      ++counters.doubled;
      waits->push_back(waits->front());
    }
  }
  if (plan_.delay == Delay::None) return;
  for (std::int64_t& wait : *waits) wait += draw_wait();
  ++counters.delayed;
}

std::int64_t Network::draw_wait() {
  switch (plan_.delay) {
    case Delay::None:
      return 0;
    case Delay::Fixed:
      return plan_.delay_ms;
    case Delay::Exponential: {
      // Without logarithms, which need not be equal in every build: how many throws of a coin that
      // falls on its face once in eight, times an eighth of the mean.
      std::int64_t throws = 0;
      while (throws < 200 && random_.below(8) != 0) ++throws;
      return throws * plan_.delay_ms / 8;
    }
    case Delay::HeavyTail: {
      std::int64_t wait =
          static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(plan_.delay_ms) + 1));
      while (wait < kHeavyTailMostMs && random_.below(10) == 0) wait = wait * 4 + 1;
      return std::min(wait, kHeavyTailMostMs);
    }
  }
  return 0;
}

}  // namespace ebb::sim
