#include "scheduling/placement/placement.hpp"

#include <numeric>
#include <optional>

#include "base/assert.hpp"
#include "scheduling/placement/fleet_impl.hpp"

namespace ebb::scheduling {
namespace {

/// What a node could take: per card and in sum.
struct Room {
  NodeId node = kNone;
  std::vector<GpuMilli> cards;
  Amount amount;
  std::uint32_t whole() const {
    return static_cast<std::uint32_t>(std::count(cards.begin(), cards.end(), 1000));
  }
};

enum class Counted { Now, AfterLeaving };

Room room_of(const FleetNode& node, NodeId id, Counted counted) {
  Room room;
  room.node = id;
  const auto& held = counted == Counted::Now ? node.all : node.firm;
  for (const GpuMilli milli : held) room.cards.push_back(std::max<GpuMilli>(0, 1000 - milli));
  room.amount = node.spec.total - (counted == Counted::Now ? node.held_all : node.held_firm);
  return room;
}

void add_back(Room& room, const Place& place) {
  for (const GpuPart& part : place.gpus) room.cards.at(part.gpu) += part.gpu_milli;
  room.amount += place.amount;
}

std::uint32_t pods_that_fit(const Room& room, const Amount& each) {
  std::int64_t fit = 1'000'000;
  if (each.gpu_milli >= 1000) {
    fit = room.whole() / (each.gpu_milli / 1000);
  } else if (each.gpu_milli > 0) {
    fit = 0;
    for (const GpuMilli card : room.cards) fit += card / each.gpu_milli;
  }
  if (each.cpu_milli > 0)
    fit = std::min(fit, std::max<std::int64_t>(0, room.amount.cpu_milli) / each.cpu_milli);
  if (each.memory_bytes > 0) {
    fit = std::min(fit, std::max<std::int64_t>(0, room.amount.memory_bytes) / each.memory_bytes);
  }
  return static_cast<std::uint32_t>(fit);
}

Place take(Room& room, std::uint32_t pod, const Amount& each) {
  Place place{.pod = pod, .node = room.node, .gpus = {}, .amount = each};
  room.amount -= each;
  if (each.gpu_milli >= 1000) {
    std::int64_t left = each.gpu_milli / 1000;
    for (std::uint32_t gpu = 0; gpu < room.cards.size() && left > 0; ++gpu) {
      if (room.cards[gpu] != 1000) continue;
      room.cards[gpu] = 0;
      place.gpus.push_back({gpu, 1000});
      --left;
    }
    EBB_ASSERT(left == 0);
  } else if (each.gpu_milli > 0) {
    std::uint32_t best = kNone;
    for (std::uint32_t gpu = 0; gpu < room.cards.size(); ++gpu) {
      if (room.cards[gpu] < each.gpu_milli) continue;
      if (best == kNone || room.cards[gpu] < room.cards[best]) best = gpu;
    }
    EBB_ASSERT(best != kNone);
    room.cards[best] -= each.gpu_milli;
    place.gpus.push_back({best, each.gpu_milli});
  }
  return place;
}

/// All pods of all groups, or nothing. Fullest fitting node for the rest that fits on one node,
/// else the roomiest first.
std::optional<std::vector<Place>> fit(std::vector<Room> rooms,
                                      const std::vector<PodGroup>& groups) {
  std::vector<std::uint32_t> first(groups.size());
  std::uint32_t pods = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    first[i] = pods;
    pods += groups[i].pods;
  }
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return groups[a].each.gpu_milli > groups[b].each.gpu_milli;
  });
  std::vector<Place> places;
  for (const std::size_t g : order) {
    std::uint32_t left = groups[g].pods;
    std::uint32_t pod = first[g];
    while (left > 0) {
      Room* best = nullptr;
      std::uint32_t best_fit = 0;
      GpuMilli best_free = 0;
      for (Room& room : rooms) {
        const std::uint32_t can = std::min(left, pods_that_fit(room, groups[g].each));
        if (can == 0) continue;
        const GpuMilli free = std::accumulate(room.cards.begin(), room.cards.end(), GpuMilli{0});
        if (best == nullptr || can > best_fit || (can == best_fit && free < best_free)) {
          best = &room;
          best_fit = can;
          best_free = free;
        }
      }
      if (best == nullptr) return std::nullopt;
      for (std::uint32_t i = 0; i < best_fit; ++i)
        places.push_back(take(*best, pod++, groups[g].each));
      left -= best_fit;
    }
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.pod < b.pod; });
  return places;
}

struct Candidate {
  HolderId id = kNone;
  bool in_quota = false;
  int priority = 0;
  std::int64_t lost = 0;  // GPU-milliseconds since the last checkpoint
  std::int64_t started = 0;
  Amount of_type;
};

bool cheaper(const Candidate& a, const Candidate& b) {
  if (a.in_quota != b.in_quota) return !a.in_quota;
  if (a.priority != b.priority) return a.priority < b.priority;
  if (a.lost != b.lost) return a.lost < b.lost;
  if (a.started != b.started) return a.started > b.started;
  return a.id < b.id;
}

bool may_take(const HolderFacts& facts, const PlaceRequest& request) {
  if (facts.leaving || facts.spared) return false;
  if (facts.holder_class == HolderClass::Idle) return request.take_idle;
  return std::any_of(request.rules.begin(), request.rules.end(), [&](const TakeRule& rule) {
    return facts.quota < rule.quotas.size() && rule.quotas[facts.quota] &&
           rule.products[static_cast<int>(facts.product)] &&
           facts.priority <= rule.priority_at_most &&
           ((rule.priorities >> facts.priority) & 1) != 0;
  });
}

/// One node type's search.
class Search {
 public:
  Search(const Fleet& fleet, const PlaceRequest& request, std::string type)
      : fleet_(fleet), request_(request), type_(std::move(type)) {
    const Fleet::Impl& impl = fleet.impl();
    for (NodeId id = 0; id < impl.nodes.size(); ++id) {
      const FleetNode& node = impl.nodes[id];
      if (node.gone || !node.usable || node.spec.type != type_) continue;
      if (std::find(request.avoid.begin(), request.avoid.end(), id) != request.avoid.end())
        continue;
      nodes_.push_back(id);
    }
    for (HolderId id = 0; id < impl.holders.size(); ++id) {
      const FleetHolder& holder = impl.holders[id];
      if (!holder.alive || holder.places.empty() || !may_take(holder.facts, request)) continue;
      Candidate candidate;
      candidate.id = id;
      candidate.in_quota = holder.facts.holder_class == HolderClass::InQuota;
      candidate.priority = holder.facts.priority;
      candidate.started = holder.facts.started_ms;
      for (const Place& place : holder.places) {
        if (impl.nodes[place.node].spec.type == type_) candidate.of_type += place.amount;
      }
      if (candidate.of_type.is_zero()) continue;
      const std::int64_t since = std::max(holder.facts.checkpoint_ms, holder.facts.started_ms);
      candidate.lost =
          std::max<std::int64_t>(0, request.now_ms - since) * candidate.of_type.gpu_milli;
      candidates_.push_back(candidate);
    }
    std::sort(candidates_.begin(), candidates_.end(), cheaper);
  }

  PlaceAnswer run() {
    PlaceAnswer answer;
    answer.node_type = type_;
    std::vector<bool> taken(candidates_.size(), false);
    if (!request_.must_free.any_positive()) {
      for (const Counted counted : {Counted::Now, Counted::AfterLeaving}) {
        if (request_.free_only && counted == Counted::AfterLeaving) break;
        if (auto places = fit(rooms(taken, counted), request_.groups)) {
          return found(std::move(*places), taken);
        }
      }
    }
    const std::vector<bool> all(candidates_.size(), true);
    if (request_.free_only || !holds(all)) return not_found(all);
    // The smallest prefix in the order of cost that serves, then given back from the dearest end.
    std::size_t low = 0, high = candidates_.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      std::vector<bool> prefix(candidates_.size(), false);
      std::fill(prefix.begin(), prefix.begin() + static_cast<long>(middle), true);
      if (holds(prefix)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    std::fill(taken.begin(), taken.begin() + static_cast<long>(low), true);
    for (std::size_t i = low; i-- > 0;) {
      taken[i] = false;
      if (!holds(taken)) taken[i] = true;
    }
    return found(*fit(rooms(taken, Counted::AfterLeaving), request_.groups), taken);
  }

 private:
  std::vector<Room> rooms(const std::vector<bool>& taken, Counted counted) const {
    std::vector<Room> rooms;
    std::vector<std::size_t> index(fleet_.impl().nodes.size(), kNone);
    for (const NodeId id : nodes_) {
      index[id] = rooms.size();
      rooms.push_back(room_of(fleet_.impl().nodes[id], id, counted));
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (!taken[i]) continue;
      for (const Place& place : fleet_.places(candidates_[i].id)) {
        if (index[place.node] != kNone) add_back(rooms[index[place.node]], place);
      }
    }
    return rooms;
  }
  bool holds(const std::vector<bool>& taken) const {
    Amount freed;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (taken[i] && candidates_[i].in_quota) freed += candidates_[i].of_type;
    }
    return request_.must_free.fits(max(freed, Amount{})) &&
           fit(rooms(taken, Counted::AfterLeaving), request_.groups).has_value();
  }
  PlaceAnswer found(std::vector<Place> places, const std::vector<bool>& taken) const {
    PlaceAnswer answer;
    answer.found = true;
    answer.node_type = type_;
    answer.places = std::move(places);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (taken[i]) answer.victims.push_back(candidates_[i].id);
    }
    return answer;
  }
  PlaceAnswer not_found(const std::vector<bool>& all) const {
    PlaceAnswer answer;
    answer.node_type = type_;
    for (const PodGroup& group : request_.groups) {
      answer.wanted_gpu_milli += group.each.gpu_milli * group.pods;
    }
    const Counted counted = request_.free_only ? Counted::Now : Counted::AfterLeaving;
    for (const Room& room : rooms(all, counted)) {
      answer.usable_gpu_milli += std::accumulate(room.cards.begin(), room.cards.end(), GpuMilli{0});
      if (!request_.groups.empty())
        answer.pods_that_fit += pods_that_fit(room, request_.groups[0].each);
    }
    answer.why =
        answer.usable_gpu_milli < answer.wanted_gpu_milli ? NoPlace::Capacity : NoPlace::Node;
    return answer;
  }
  const Fleet& fleet_;
  const PlaceRequest& request_;
  std::string type_;
  std::vector<NodeId> nodes_;
  std::vector<Candidate> candidates_;
};

}  // namespace

PlaceAnswer decide_placement(const Fleet& fleet, const PlaceRequest& request) {
  PlaceAnswer best;
  best.why = NoPlace::Capacity;
  for (const PodGroup& group : request.groups)
    best.wanted_gpu_milli += group.each.gpu_milli * group.pods;
  const std::vector<std::string> types =
      request.node_types.empty() ? fleet.types() : request.node_types;
  for (const std::string& type : types) {
    PlaceAnswer answer = Search(fleet, request, type).run();
    const bool better = answer.found
                            ? !best.found || answer.victims.size() < best.victims.size()
                            : !best.found && answer.usable_gpu_milli > best.usable_gpu_milli;
    if (better) best = std::move(answer);
  }
  return best;
}

}  // namespace ebb::scheduling
