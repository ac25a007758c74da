#include "gateway/translation/tree_facts.hpp"

#include <algorithm>
#include <map>

#include "gateway/api/json.hpp"
#include "gateway/translation/amount_text.hpp"

namespace ebb::gateway {
namespace {

std::uint64_t pods_in(const scheduling::Amount& room, const scheduling::Amount& each) {
  std::int64_t pods = std::int64_t{1} << 40;
  if (each.gpu_milli >= 1'000) {
    pods = std::min(pods, room.gpu_milli / each.gpu_milli);
  } else if (each.gpu_milli > 0) {  // a fraction never spans two cards
    pods = std::min(pods, room.gpu_milli / 1'000 * (1'000 / each.gpu_milli));
  }
  if (each.cpu_milli > 0) pods = std::min(pods, room.cpu_milli / each.cpu_milli);
  if (each.memory_bytes > 0) pods = std::min(pods, room.memory_bytes / each.memory_bytes);
  return static_cast<std::uint64_t>(pods);
}

bool allows(const std::vector<std::string>& node_types, const std::string& name) {
  return node_types.empty() ||
         std::find(node_types.begin(), node_types.end(), name) != node_types.end();
}

}  // namespace

TreeFacts TreeFacts::of(const v1::TenantRecord& tenant, const std::string& root_quota) {
  std::map<std::string, NodeType> types;
  for (const auto& node : tenant.nodes()) {
    if (!root_quota.empty() && node.root_quota() != root_quota) continue;
    const scheduling::Amount total = amount_of(node.facts().total());
    NodeType& type = types[node.facts().node_type()];
    type.name = node.facts().node_type();
    type.gpu_model = node.facts().gpu_model();
    type.resource_type = node.facts().resource_type();
    type.largest = scheduling::max(type.largest, total);
    type.smallest = type.nodes == 0 ? total : scheduling::min(type.smallest, total);
    type.sizes.push_back(total);
    ++type.nodes;
  }
  TreeFacts facts;
  for (auto& entry : types) facts.types_.push_back(std::move(entry.second));
  return facts;
}

const NodeType* TreeFacts::find(const std::string& name) const {
  for (const NodeType& type : types_) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::vector<const NodeType*> TreeFacts::matching(const std::string& gpu_type) const {
  std::vector<const NodeType*> found;
  for (const NodeType& type : types_) {
    if (gpu_type.empty() || type.name == gpu_type || type.gpu_model == gpu_type) {
      found.push_back(&type);
    }
  }
  return found;
}

std::string TreeFacts::listed() const {
  if (types_.empty()) return "no nodes";
  std::string text;
  for (const NodeType& type : types_) {
    text += (text.empty() ? "" : ", ") + type.name + " (" + std::to_string(type.nodes) +
            " nodes, largest " + text_of(type.largest) + ")";
  }
  return text;
}

std::uint64_t pods_that_fit(const TreeFacts& tree, const std::vector<std::string>& node_types,
                            const scheduling::Amount& each) {
  std::uint64_t pods = 0;
  for (const NodeType& type : tree.types()) {
    if (!allows(node_types, type.name)) continue;
    for (const scheduling::Amount& size : type.sizes) pods += pods_in(size, each);
  }
  return pods;
}

Result<std::vector<std::string>> node_types_for(const TreeFacts& tree, const std::string& gpu_type,
                                                const std::string& field) {
  std::vector<std::string> names;
  if (gpu_type.empty()) return names;
  for (const NodeType* type : tree.matching(gpu_type)) names.push_back(type->name);
  if (names.empty()) {
    return Refusal{
        "InvalidParameter",
        field + " is " + api::shown(gpu_type) + "; the quota's tree has " + tree.listed(), 400};
  }
  return names;
}

Result<Ok> check_can_ever_fit(const TreeFacts& tree, const std::vector<std::string>& node_types,
                              const scheduling::Amount& each, std::uint64_t pods,
                              const std::string& field) {
  const std::uint64_t fitting = pods_that_fit(tree, node_types, each);
  if (fitting >= pods) return Ok{};
  const std::string asked = field + " asks for " + std::to_string(pods) +
                            (pods == 1 ? " pod of " : " pods of ") + text_of(each) + " at once; ";
  const std::string room = fitting == 0
                               ? "no node can ever hold one"
                               : "all nodes together hold at most " + std::to_string(fitting);
  return Refusal{"NeverFits", asked + room + ": the quota's tree has " + tree.listed(), 400};
}

scheduling::Amount amount_of(const v1::Amount& amount) {
  return {amount.gpu_milli(), amount.cpu_milli(), amount.memory_bytes()};
}

void set(v1::Amount* out, const scheduling::Amount& amount) {
  out->set_gpu_milli(amount.gpu_milli);
  out->set_cpu_milli(amount.cpu_milli);
  out->set_memory_bytes(amount.memory_bytes);
}

void set(google::protobuf::RepeatedPtrField<v1::TypedAmount>* out,
         const scheduling::Amounts& amounts) {
  out->Clear();
  for (const auto& [type, amount] : amounts) {
    v1::TypedAmount* typed = out->Add();
    typed->set_node_type(type);
    set(typed->mutable_amount(), amount);
  }
}

scheduling::Amount sum_of(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list) {
  scheduling::Amount sum;
  for (const v1::TypedAmount& typed : list) sum += amount_of(typed.amount());
  return sum;
}

std::string text_of(const scheduling::Amount& amount) {
  std::string text = text_of_milli(amount.gpu_milli) + " GPU";
  if (amount.cpu_milli != 0) text += ", " + text_of_milli(amount.cpu_milli) + " CPU";
  if (amount.memory_bytes != 0) text += ", " + text_of_bytes(amount.memory_bytes);
  return text;
}

}  // namespace ebb::gateway
