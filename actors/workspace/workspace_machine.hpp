// A workspace: who may submit what to which quota. It checks, then brings a workload into the
// world.
//
// Errors: refusals name the field and what is allowed. Source: RELIABILITY.md 4.1, api/NOTES.md
// "Workspaces". Saves `WorkspaceRecord`; each client token and each service name is a part of its
// own, so that none is lost and the record stays small. A token is saved together with the workload
// it made: the same token never makes two.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "actors/machine.hpp"

namespace ebb::actors {

class WorkspaceMachine final : public Machine {
 public:
  WorkspaceMachine(const Context& context, const std::vector<v1::Record>& records);
  void start(Instant, Effects&) override {}
  void handle(const v1::Envelope& envelope, Instant now, Effects& effects) override;
  void wake(Instant, Effects&) override {}

 private:
  void create_workload(const v1::WorkspaceCommand& command, const v1::Envelope& envelope,
                       Instant now, Effects& effects);
  Result<Ok> may_submit(const std::string& principal, const v1::WorkloadSpec& spec) const;
  void bind(const v1::QuotaBinding& binding, const v1::Envelope& envelope, Effects& effects);
  void set_member(const v1::Member& member, const v1::Envelope& envelope, Effects& effects);
  void save(Effects& effects);
  void answer(const v1::Envelope& envelope, const std::string& id, Effects& effects);

  Context context_;
  v1::WorkspaceRecord record_;
  std::map<std::string, std::string> tokens_;  // client token -> workload id
  std::map<std::string, std::string> names_;   // service name -> address
};

}  // namespace ebb::actors
