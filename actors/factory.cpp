// Which machine lives at which kind of address.
#include "actors/machine.hpp"
#if __has_include("actors/quota/quota_machine.hpp")
#include "actors/quota/quota_machine.hpp"
#endif

namespace ebb::actors {

std::unique_ptr<Machine> make_machine(const Context& context,
                                      const std::vector<v1::Record>& records) {
  (void)context;
  (void)records;
  return nullptr;
}

}  // namespace ebb::actors
