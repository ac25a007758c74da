// What happens to messages: drops, doubles, replays of old ones, delays (and with them
// reorderings), by link and by kind of message; partitions between processes, one way or both.
#pragma once
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "sim/soak/plan.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {

/// Number of the message's type within all inboxes.
int kind_of(const v1::Envelope& envelope);
std::string name_of_kind(const v1::Envelope& envelope);

class Network {
 public:
  Network(const NetPlan& plan, std::uint64_t seed, World& world);
  /// From now on everything arrives, once and at once.
  void heal();
  void cut(ProcessId from, ProcessId to, bool is_cut);

 private:
  void decide(const EnvelopePtr& envelope, std::vector<std::int64_t>* waits);
  /// Of 100: how bad this link and this kind are against the whole network.
  std::uint32_t badness(const v1::Envelope& envelope);
  std::int64_t draw_wait();

  NetPlan plan_;
  World& world_;
  const std::uint64_t seed_;
  Random random_;
  std::map<std::pair<ProcessId, ProcessId>, int> cut_;
  std::deque<EnvelopePtr> past_;
};

}  // namespace ebb::sim
