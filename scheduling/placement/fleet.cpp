#include "scheduling/placement/fleet.hpp"

#include "base/assert.hpp"
#include "scheduling/placement/fleet_impl.hpp"

namespace ebb::scheduling {
Fleet::Fleet() : impl_(new Impl) {}
Fleet::~Fleet() { delete impl_; }
Fleet::Fleet(Fleet&& other) noexcept : impl_(other.impl_) { other.impl_ = nullptr; }
Fleet& Fleet::operator=(Fleet&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
NodeId Fleet::add_node(const NodeSpec& spec) {
  FleetNode node;
  node.spec = spec;
  node.firm.assign(spec.gpus, 0);
  node.all.assign(spec.gpus, 0);
  impl_->nodes.push_back(std::move(node));
  return static_cast<NodeId>(impl_->nodes.size() - 1);
}
void Fleet::set_usable(NodeId id, bool usable) { impl_->nodes.at(id).usable = usable; }
bool Fleet::usable(NodeId id) const { return impl_->nodes.at(id).usable; }
void Fleet::remove_node(NodeId id) {
  FleetNode& node = impl_->nodes.at(id);
  for (const HolderId holder : holders_on(id)) {
    std::vector<Place> places = impl_->holders[holder].places;
    for (const Place& place : places) {
      if (place.node == id) release(holder, place.pod);
    }
  }
  node.usable = false;
  node.gone = true;
}
NodeId Fleet::find_node(std::string_view name) const {
  for (NodeId i = 0; i < impl_->nodes.size(); ++i) {
    if (!impl_->nodes[i].gone && impl_->nodes[i].spec.name == name) return i;
  }
  return kNone;
}
const NodeSpec& Fleet::node(NodeId id) const { return impl_->nodes.at(id).spec; }
std::vector<NodeId> Fleet::nodes() const {
  std::vector<NodeId> ids;
  for (NodeId i = 0; i < impl_->nodes.size(); ++i) {
    if (!impl_->nodes[i].gone) ids.push_back(i);
  }
  return ids;
}
HolderId Fleet::add_holder(const HolderFacts& facts) {
  if (!impl_->free_holders.empty()) {
    const HolderId id = impl_->free_holders.back();
    impl_->free_holders.pop_back();
    impl_->holders[id] = {facts, {}, true};
    return id;
  }
  impl_->holders.push_back({facts, {}, true});
  return static_cast<HolderId>(impl_->holders.size() - 1);
}
void Fleet::update_holder(HolderId id, const HolderFacts& facts) {
  FleetHolder& holder = impl_->holders.at(id);
  EBB_ASSERT(holder.alive);
  if (holder.facts.leaving != facts.leaving) {
    for (const Place& place : holder.places) impl_->count(place, facts.leaving ? -1 : 1, 0);
  }
  holder.facts = facts;
}
const HolderFacts& Fleet::holder(HolderId id) const { return impl_->holders.at(id).facts; }
void Fleet::remove_holder(HolderId id) {
  FleetHolder& holder = impl_->holders.at(id);
  EBB_ASSERT(holder.alive);
  while (!holder.places.empty()) release(id, holder.places.back().pod);
  holder.alive = false;
  impl_->free_holders.push_back(id);
}
void Fleet::hold(HolderId id, const Place& place) {
  FleetHolder& holder = impl_->holders.at(id);
  EBB_ASSERT(holder.alive);
  holder.places.push_back(place);
  impl_->count(place, holder.facts.leaving ? 0 : 1, 1);
  impl_->nodes.at(place.node).pods.emplace_back(id, place.pod);
}
void Fleet::release(HolderId id, std::uint32_t pod) {
  FleetHolder& holder = impl_->holders.at(id);
  for (auto it = holder.places.begin(); it != holder.places.end(); ++it) {
    if (it->pod != pod) continue;
    impl_->count(*it, holder.facts.leaving ? 0 : -1, -1);
    std::erase(impl_->nodes.at(it->node).pods, std::pair{id, pod});
    holder.places.erase(it);
    return;
  }
  EBB_ASSERT(false && "release of a pod that holds nothing");
}
const std::vector<Place>& Fleet::places(HolderId id) const { return impl_->holders.at(id).places; }
bool Fleet::is_ready(HolderId id) const {
  for (const Place& place : impl_->holders.at(id).places) {
    const FleetNode& node = impl_->nodes.at(place.node);
    for (const GpuPart& part : place.gpus) {
      if (node.all.at(part.gpu) > 1000) return false;
    }
    if (!(node.held_all.cpu_milli <= node.spec.total.cpu_milli &&
          node.held_all.memory_bytes <= node.spec.total.memory_bytes)) {
      return false;
    }
  }
  return true;
}
std::vector<HolderId> Fleet::holders_on(NodeId id) const {
  std::vector<HolderId> ids;
  for (const auto& [holder, pod] : impl_->nodes.at(id).pods) {
    if (std::find(ids.begin(), ids.end(), holder) == ids.end()) ids.push_back(holder);
  }
  return ids;
}
Amount Fleet::total(std::string_view type) const {
  Amount sum;
  for (const FleetNode& node : impl_->nodes) {
    if (node.usable && !node.gone && (type.empty() || node.spec.type == type))
      sum += node.spec.total;
  }
  return sum;
}
Amount Fleet::free(std::string_view type) const {
  Amount sum;
  for (const FleetNode& node : impl_->nodes) {
    if (!node.usable || node.gone || (!type.empty() && node.spec.type != type)) continue;
    sum += positive(node.spec.total - node.held_all);
  }
  return sum;
}
Amount Fleet::held(std::string_view type, HolderClass holder_class) const {
  Amount sum;
  for (const FleetHolder& holder : impl_->holders) {
    if (!holder.alive || holder.facts.holder_class != holder_class) continue;
    for (const Place& place : holder.places) {
      const FleetNode& node = impl_->nodes[place.node];
      if (node.usable && (type.empty() || node.spec.type == type)) sum += place.amount;
    }
  }
  return sum;
}
std::vector<std::string> Fleet::types() const {
  std::vector<std::string> types;
  for (const FleetNode& node : impl_->nodes) {
    if (!node.gone && std::find(types.begin(), types.end(), node.spec.type) == types.end()) {
      types.push_back(node.spec.type);
    }
  }
  std::sort(types.begin(), types.end());
  return types;
}
Amount Fleet::free_on(NodeId id) const {
  const FleetNode& node = impl_->nodes.at(id);
  return positive(node.spec.total - node.held_all);
}
}  // namespace ebb::scheduling
