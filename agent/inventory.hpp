// Which nodes this agent presents: declared ones, or the machine itself with the GPUs that NVML
// finds.
//
// Units as in scheduling/amount.hpp. Errors: a declaration that cannot be read is refused with what
// is allowed.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/node.pb.h"

namespace ebb::agent {

struct Declaration {
  std::uint32_t nodes = 0;
  std::uint32_t gpus = 0;  // of each
  std::string model;
};
/// "16x8:A100"; several separated by commas or blanks: "8x8:A100,2x4:H100". GPUs may be 0:
/// "4x0:CPU".
Result<std::vector<Declaration>> parse_declarations(const std::string& text);

struct InventorySettings {
  std::vector<Declaration> declarations;  // empty: ask NVML
  std::string name_prefix = "node";
  std::string node_type;  // empty: MODELxGPUS, for instance A100x8
  std::string resource_group;
  std::string resource_type;
  std::string host = "127.0.0.1";
  std::int64_t cpu_milli = 0;     // of a node; 0: per declared GPU kCpuPerGpu, else the machine's
  std::int64_t memory_bytes = 0;  // likewise
  std::string boot_id;
};
inline constexpr std::int64_t kCpuMilliPerGpu = 12'000;
inline constexpr std::int64_t kMemoryPerGpu = std::int64_t{120} << 30;

/// Names PREFIX-00, PREFIX-01, ... over all declarations; the machine itself is PREFIX-HOSTNAME
/// unless it is declared.
Result<std::vector<v1::NodeFacts>> take_inventory(const InventorySettings& settings);

}  // namespace ebb::agent
