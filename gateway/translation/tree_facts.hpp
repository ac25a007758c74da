// What a translation must know of the nodes: the node types of one tree (or of all), with the size
// of a node.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/tenant.pb.h"
#include "scheduling/amount.hpp"

namespace ebb::gateway {

struct NodeType {
  std::string name;
  std::string gpu_model;
  std::string resource_type;
  std::uint32_t nodes = 0;
  scheduling::Amount largest;             // of one node
  scheduling::Amount smallest;            // of one node
  std::vector<scheduling::Amount> sizes;  // of each node
};

class TreeFacts {
 public:
  /// Nodes of the tree with this root; empty: all nodes of the tenant.
  static TreeFacts of(const v1::TenantRecord& tenant, const std::string& root_quota);

  const std::vector<NodeType>& types() const { return types_; }
  const NodeType* find(const std::string& name) const;
  /// Types whose name or GPU model is `gpu_type`; all for an empty one.
  std::vector<const NodeType*> matching(const std::string& gpu_type) const;
  /// "A100 (16 nodes of 8 GPUs)", for refusals.
  std::string listed() const;

 private:
  std::vector<NodeType> types_;
};

/// How many pods of that size empty nodes of these types could hold.
std::uint64_t pods_that_fit(const TreeFacts& tree, const std::vector<std::string>& node_types,
                            const scheduling::Amount& each);

/// Node types for a GPUType of a request: empty if none is asked for. Refused if the tree has none
/// such.
Result<std::vector<std::string>> node_types_for(const TreeFacts& tree, const std::string& gpu_type,
                                                const std::string& field);

/// Refuses what can never be placed even if every node of the tree were empty. `field` names what
/// was asked for.
Result<Ok> check_can_ever_fit(const TreeFacts& tree, const std::vector<std::string>& node_types,
                              const scheduling::Amount& each, std::uint64_t pods,
                              const std::string& field);

scheduling::Amount amount_of(const v1::Amount& amount);
void set(v1::Amount* out, const scheduling::Amount& amount);
void set(google::protobuf::RepeatedPtrField<v1::TypedAmount>* out,
         const scheduling::Amounts& amounts);
/// Sum over all node types.
scheduling::Amount sum_of(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list);
std::string text_of(const scheduling::Amount& amount);  // "8 GPU, 64 CPU, 512Gi"

}  // namespace ebb::gateway
