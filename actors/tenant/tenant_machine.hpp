// The tenant: which nodes there are and to which root quota each belongs, the roots, resource
// groups and workspaces. There is exactly one, address "tenant".
//
// Unit: amounts as in common.proto. Errors: refusals name the field, what was asked and what there
// is. Source: DESIGN sections 1 and 3; api/NOTES.md "Quotas". A root is made of whole nodes; nodes
// that join later fill a root that still lacks some.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "actors/conversation.hpp"
#include "actors/machine.hpp"
#include "actors/records.hpp"

namespace ebb::actors {

class TenantMachine final : public Machine {
 public:
  TenantMachine(const Context& context, const std::vector<v1::Record>& records);
  void start(Instant now, Effects& effects) override;
  void handle(const v1::Envelope& envelope, Instant now, Effects& effects) override;
  void settle(Instant now, Effects& effects) override;
  void wake(Instant now, Effects& effects) override;
  /// A pool saves nothing: which nodes are its own it has from here.
  void remind(Instant now) override;

 private:
  struct NodeTalk {
    Conversation conversation;
    std::string told;
  };
  struct PoolTalk {
    Conversation conversation;
    std::string told;
  };
  /// A change that waits for its quota's word.
  struct Pending {
    v1::Envelope request;
    v1::RootQuota scale;
    std::string delete_root;
  };

  void on(const v1::NodeState& state, const std::string& from);
  void on(const v1::PoolEcho& echo);
  void on_reply(const v1::Envelope& envelope, Effects& effects);
  void command(const v1::TenantCommand& command, const v1::Envelope& envelope, Instant now,
               Effects& effects);
  void create_root(const v1::RootQuota& wanted, const v1::Envelope& envelope, Effects& effects);
  void scale_root(const v1::RootQuota& wanted, const v1::Envelope& envelope, Effects& effects);
  void delete_root(const std::string& id, const v1::Envelope& envelope, Effects& effects);
  void create_workspace(const v1::WorkspaceSpec& spec, const v1::Envelope& envelope,
                        Effects& effects);
  void create_group(const v1::ResourceGroupSpec& spec, const v1::Envelope& envelope,
                    Effects& effects);
  void delete_group(const std::string& id, const v1::Envelope& envelope, Effects& effects);
  void operate_node(const v1::OperateNode& operation, const v1::Envelope& envelope,
                    Effects& effects);

  /// Free nodes a root may take, in the order of their names.
  std::vector<v1::TenantRecord::Node*> free_nodes(const v1::RootQuota::NodeCount& wanted,
                                                  const std::vector<std::string>& groups,
                                                  const std::string& resource_type);
  std::uint32_t nodes_of(const std::string& root, const std::string& type) const;
  v1::TenantRecord::Root* root(const std::string& id);
  v1::TenantRecord::Node* node(const std::string& name);
  void fill_roots(Effects& effects);
  scheduling::Amounts amounts_of_root(const std::string& id) const;
  void ask_quota_to_scale(const v1::TenantRecord::Root& root, const scheduling::Amounts& amounts,
                          Pending pending, Effects& effects);
  void answer(const v1::Envelope& envelope, const std::string& id, Effects& effects);
  v1::PoolTerms terms_of(const v1::TenantRecord::Root& root) const;
  std::string group_of(const v1::NodeFacts& facts) const;
  std::string resource_type_of(const v1::NodeFacts& facts) const;

  Context context_;
  v1::TenantRecord record_;
  std::map<std::string, NodeTalk> nodes_;   // by name
  std::map<std::string, PoolTalk> pools_;   // by root id
  std::map<std::string, Pending> pending_;  // by correlation id
  std::uint64_t next_correlation_ = 1;
  bool dirty_ = false;
};

}  // namespace ebb::actors
