// Which machine lives at which kind of address.
#include "actors/machine.hpp"
#include "actors/node/node_machine.hpp"

namespace ebb::actors {

std::unique_ptr<Machine> make_machine(const Context& context,
                                      const std::vector<v1::Record>& records) {
  const std::string_view kind = kind_of_address(context.address);
  if (kind == "node") return std::make_unique<NodeMachine>(context, records);
  return nullptr;
}

}  // namespace ebb::actors
