// Faults planted on purpose, for the simulation to find: `if (EBB_PLANTED(name)) break the rule`.
//
// Only a build with -DEBB_PLANTED=ON knows them; there one is chosen by name at run time
// (`ebb-sim soak --planted NAME`). In every other build EBB_PLANTED(...) is the constant false and
// leaves no code. Each stands at the rule that it breaks; the list below says what it does.
#pragma once
#include <string_view>

// X(name, what it breaks)
#define EBB_PLANTED_FAULTS(X) X(old_epoch_saves, "R5: the store takes the save of a deposed owner")

namespace ebb {

enum class Planted {
  none,
#define EBB_PLANTED_NAME(name, text) name,
  EBB_PLANTED_FAULTS(EBB_PLANTED_NAME)
#undef EBB_PLANTED_NAME
};

struct PlantedFault {
  Planted fault;
  std::string_view name;
  std::string_view text;
};
inline constexpr PlantedFault kPlantedFaults[] = {
#define EBB_PLANTED_ROW(name, text) {Planted::name, #name, text},
    EBB_PLANTED_FAULTS(EBB_PLANTED_ROW)
#undef EBB_PLANTED_ROW
};

#ifdef EBB_PLANTED_BUILD
/// Set once, before the first machine is built.
inline Planted planted_fault = Planted::none;
#define EBB_PLANTED(name) (::ebb::planted_fault == ::ebb::Planted::name)
#else
#define EBB_PLANTED(name) false
#endif

}  // namespace ebb
