// Which machine lives at which kind of address.
#include <map>

#include "actors/machine.hpp"
#include "actors/pool/pool_machine.hpp"
#include "actors/quota/quota_machine.hpp"
#if __has_include("actors/node/node_machine.hpp")
#include "actors/node/node_machine.hpp"
#endif
#if __has_include("actors/tenant/tenant_machine.hpp")
#include "actors/tenant/tenant_machine.hpp"
#endif
#if __has_include("actors/workspace/workspace_machine.hpp")
#include "actors/workspace/workspace_machine.hpp"
#endif
#if __has_include("actors/workload/job_machine.hpp")
#include "actors/workload/job_machine.hpp"
#endif
#if __has_include("actors/workload/service_machine.hpp")
#include "actors/workload/service_machine.hpp"
#endif
#if __has_include("actors/workload/instance_machine.hpp")
#include "actors/workload/instance_machine.hpp"
#endif

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
#if __has_include("actors/node/node_machine.hpp")
    {"node", make<NodeMachine>},
#endif
#if __has_include("actors/tenant/tenant_machine.hpp")
    {"tenant", make<TenantMachine>},
#endif
#if __has_include("actors/workspace/workspace_machine.hpp")
    {"workspace", make<WorkspaceMachine>},
#endif
#if __has_include("actors/workload/job_machine.hpp")
    {"job", make<JobMachine>},
#endif
#if __has_include("actors/workload/service_machine.hpp")
    {"service", make<ServiceMachine>},
#endif
#if __has_include("actors/workload/instance_machine.hpp")
    {"instance", make<InstanceMachine>},
#endif
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
