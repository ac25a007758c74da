#include "agent/pod_env.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>

namespace ebb::agent {
namespace {
/// Characters that no shell treats in a way of its own, after the first word.
constexpr const char* kPlain =
    " ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
constexpr unsigned kRendezvousFirst = 10'000, kRendezvousCount = 10'000;

std::string gpu_list(const v1::LaunchPod& launch, const PodSurroundings& surroundings) {
  std::string out;
  for (const v1::GpuShare& share : launch.gpus()) {
    if (!out.empty()) out += ',';
    // An id would tell one node from another.
    const bool by_id = share.gpu() < surroundings.gpu_ids.size() && !launch.spec().hide_node();
    out += by_id ? surroundings.gpu_ids[share.gpu()] : std::to_string(share.gpu());
  }
  return out;
}
}  // namespace

unsigned rendezvous_port(const v1::PodKey& key) {
  // FNV-1a: the same in every build and process.
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : key.workload() + "/" + std::to_string(key.index())) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return kRendezvousFirst + static_cast<unsigned>((hash + key.attempt()) % kRendezvousCount);
}

std::vector<std::string> pod_command(const v1::LaunchSpec& spec) {
  std::vector<std::string> given(spec.command().begin(), spec.command().end());
  if (given.size() != 3 || given[0] != "/bin/sh" || given[1] != "-c") return given;
  if (given[2].find_first_not_of(kPlain) != std::string::npos) return given;
  std::istringstream text(given[2]);
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  if (words.size() < 2 || words[0] != "exec" || words[1][0] == '-') return given;
  words.erase(words.begin());
  return words;
}

std::vector<std::string> pod_environment(const v1::LaunchPod& launch,
                                         const PodSurroundings& surroundings) {
  const v1::LaunchSpec& spec = launch.spec();
  std::map<std::string, std::string> env;
  env["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  for (const char* name : {"PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH"}) {
    if (const char* value = std::getenv(name)) env[name] = value;
  }
  for (const auto& [name, value] : spec.env()) {
    if (!name.empty() && name.find('=') == std::string::npos) env[name] = value;
  }
  const std::string gpus = gpu_list(launch, surroundings);
  env["CUDA_VISIBLE_DEVICES"] = gpus;
  env["NVIDIA_VISIBLE_DEVICES"] = gpus.empty() ? "void" : gpus;
  env["RANK"] = std::to_string(spec.rank());
  env["WORLD_SIZE"] = std::to_string(std::max(1u, spec.world_size()));
  // A pod sees only its own GPUs, so it is alone in what it takes for its machine.
  env["LOCAL_RANK"] = "0";
  env["LOCAL_WORLD_SIZE"] = "1";
  env["MASTER_ADDR"] = surroundings.master_address;
  env["MASTER_PORT"] = std::to_string(rendezvous_port(launch.key()));
  env["EBB_JOB_ID"] = spec.job_id();
  env["EBB_ATTEMPT"] = std::to_string(launch.key().attempt());
  env["EBB_POD"] = std::to_string(launch.key().pod());
  env["EBB_ROLE"] = spec.role();
  env["EBB_CHECKPOINT_DIR"] = surroundings.checkpoint_directory;
  env["EBB_POD_MARK"] = surroundings.mark;
  if (surroundings.port != 0) {
    env["EBB_PORT"] = env["PORT"] = std::to_string(surroundings.port);
  }
  env.erase("EBB_NODE");
  if (!spec.hide_node()) env["EBB_NODE"] = surroundings.node;
  std::vector<std::string> out;
  for (const auto& [name, value] : env) out.push_back(name + "=" + value);
  return out;
}

}  // namespace ebb::agent
