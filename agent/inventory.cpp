#include "agent/inventory.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <charconv>
#include <thread>

#include "agent/nvml.hpp"

namespace ebb::agent {
namespace {
constexpr std::uint32_t kNodesMax = 10'000, kGpusMax = 64;
constexpr const char* kAgentVersion = "0.1";

bool take_number(std::string_view* text, std::uint32_t most, std::uint32_t* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc{} || *number > most) return false;
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return true;
}

Result<Declaration> parse_one(const std::string& text) {
  const Refusal bad{"InvalidParameter",
                    "declare is \"" + text +
                        "\", allowed is NODESxGPUS:MODEL with 1 to 10000 nodes and 0 to 64 GPUs, "
                        "for instance 16x8:A100",
                    400};
  std::string_view rest = text;
  Declaration out;
  if (!take_number(&rest, kNodesMax, &out.nodes) || out.nodes == 0) return bad;
  if (rest.empty() || rest[0] != 'x') return bad;
  rest.remove_prefix(1);
  if (!take_number(&rest, kGpusMax, &out.gpus)) return bad;
  if (rest.size() < 2 || rest[0] != ':') return bad;
  out.model = rest.substr(1);
  return out;
}

std::string number_name(const std::string& prefix, std::uint32_t number) {
  const std::string digits = std::to_string(number);
  return prefix + "-" + (digits.size() < 2 ? "0" : "") + digits;
}

std::int64_t machine_memory() {
  struct sysinfo info {};
  return ::sysinfo(&info) == 0 ? static_cast<std::int64_t>(info.totalram) * info.mem_unit : 0;
}
std::int64_t machine_cpu_milli() {
  return std::int64_t{std::thread::hardware_concurrency()} * 1000;
}

v1::NodeFacts common(const InventorySettings& settings) {
  v1::NodeFacts facts;
  facts.set_boot_id(settings.boot_id);
  facts.set_resource_group(settings.resource_group);
  facts.set_resource_type(settings.resource_type);
  facts.set_host(settings.host);
  facts.set_agent_version(kAgentVersion);
  return facts;
}

void set_amounts(const InventorySettings& settings, std::int64_t gpus, std::int64_t cpu_milli,
                 std::int64_t memory_bytes, v1::NodeFacts* facts) {
  v1::Amount* total = facts->mutable_total();
  total->set_gpu_milli(gpus * 1000);
  total->set_cpu_milli(settings.cpu_milli > 0 ? settings.cpu_milli : cpu_milli);
  total->set_memory_bytes(settings.memory_bytes > 0 ? settings.memory_bytes : memory_bytes);
}
}  // namespace

Result<std::vector<Declaration>> parse_declarations(const std::string& text) {
  std::vector<Declaration> out;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(", ", at)) != std::string::npos) {
    const std::size_t end = std::min(text.find_first_of(", ", at), text.size());
    auto one = parse_one(text.substr(at, end - at));
    if (!one) return one.refusal();
    out.push_back(*one);
    at = end;
  }
  return out;
}

Result<std::vector<v1::NodeFacts>> take_inventory(const InventorySettings& settings) {
  std::vector<v1::NodeFacts> out;
  for (const Declaration& declaration : settings.declarations) {
    for (std::uint32_t i = 0; i < declaration.nodes; ++i) {
      v1::NodeFacts facts = common(settings);
      facts.set_node(number_name(settings.name_prefix, static_cast<std::uint32_t>(out.size())));
      facts.set_gpu_model(declaration.model);
      facts.set_node_type(settings.node_type.empty()
                              ? declaration.model + "x" + std::to_string(declaration.gpus)
                              : settings.node_type);
      const bool has_gpus = declaration.gpus > 0;
      set_amounts(settings, declaration.gpus,
                  has_gpus ? declaration.gpus * kCpuMilliPerGpu : machine_cpu_milli(),
                  has_gpus ? declaration.gpus * kMemoryPerGpu : machine_memory(), &facts);
      out.push_back(std::move(facts));
    }
  }
  if (!out.empty()) return out;
  auto nvml = Nvml::open();
  if (!nvml) return nvml.refusal();
  const std::vector<FoundGpu> gpus = (*nvml)->gpus();
  v1::NodeFacts facts = common(settings);
  char host_name[256] = "machine";
  ::gethostname(host_name, sizeof host_name - 1);
  facts.set_node(settings.name_prefix + "-" + host_name);
  for (const FoundGpu& gpu : gpus) {
    if (!gpu.healthy) facts.add_faulty_gpus(static_cast<std::uint32_t>(facts.gpu_ids_size()));
    facts.add_gpu_ids(gpu.uuid);
    facts.set_gpu_model(gpu.model);
    facts.set_gpu_memory_bytes(gpu.memory_bytes);
  }
  facts.set_node_type(settings.node_type.empty()
                          ? facts.gpu_model() + "x" + std::to_string(gpus.size())
                          : settings.node_type);
  set_amounts(settings, static_cast<std::int64_t>(gpus.size()), machine_cpu_milli(),
              machine_memory(), &facts);
  out.push_back(std::move(facts));
  return out;
}

}  // namespace ebb::agent
