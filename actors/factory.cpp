// Which machine lives at which kind of address.
#include <map>

#include "actors/machine.hpp"
#include "actors/node/node_machine.hpp"
#include "actors/pool/pool_machine.hpp"
#include "actors/quota/quota_machine.hpp"
#include "actors/tenant/tenant_machine.hpp"
#include "actors/workload/instance_machine.hpp"
#include "actors/workload/job_machine.hpp"
#include "actors/workload/service_machine.hpp"
#include "actors/workspace/workspace_machine.hpp"

namespace ebb::actors {
namespace {

using Make = std::unique_ptr<Machine> (*)(const Context&, const std::vector<v1::Record>&);

template <class M>
std::unique_ptr<Machine> make(const Context& context, const std::vector<v1::Record>& records) {
  return std::make_unique<M>(context, records);
}

const std::map<std::string_view, Make>& kinds() {
  static const std::map<std::string_view, Make> kKinds = {
      {"quota", make<QuotaMachine>},
      {"pool", make<PoolMachine>},

      {"node", make<NodeMachine>},

      {"tenant", make<TenantMachine>},

      {"workspace", make<WorkspaceMachine>},

      {"job", make<JobMachine>},

      {"service", make<ServiceMachine>},

      {"instance", make<InstanceMachine>},

  };
  return kKinds;
}

}  // namespace

std::unique_ptr<Machine> make_machine(const Context& context,
                                      const std::vector<v1::Record>& records) {
  const auto found = kinds().find(kind_of_address(context.address));
  return found == kinds().end() ? nullptr : found->second(context, records);
}

}  // namespace ebb::actors
