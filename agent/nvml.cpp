#include "agent/nvml.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace ebb::agent {
namespace {
// From nvml.h.
constexpr int kSuccess = 0;
constexpr int kUncorrectedErrors = 1, kVolatileCounter = 0;
constexpr unsigned kTextMax = 96;
struct NvmlMemory {
  unsigned long long total, free, used;
};
using Device = void*;
}  // namespace

struct Nvml::Calls {
  void* library = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, NvmlMemory*) = nullptr;
  int (*ecc_errors)(Device, int, int, unsigned long long*) = nullptr;

  template <class Function>
  bool find(const char* symbol, Function* function) {
    *function = reinterpret_cast<Function>(::dlsym(library, symbol));
    return *function != nullptr;
  }
};

Nvml::Nvml(std::unique_ptr<Calls> calls) : calls_(std::move(calls)) {}

Nvml::~Nvml() {
  calls_->shutdown();
  ::dlclose(calls_->library);
}

Result<std::unique_ptr<Nvml>> Nvml::open(const char* library) {
  const auto refuse = [](const std::string& why) {
    return Refusal{"NoGpus",
                   "no GPUs can be found: " + why +
                       ". Declare nodes instead, for instance --declare 1x8:A100 (one node of 8 "
                       "GPUs), or 1x0:CPU for a node without GPUs",
                   500};
  };
  auto calls = std::make_unique<Calls>();
  calls->library = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (calls->library == nullptr) return refuse(::dlerror());
  const bool complete = calls->find("nvmlInit_v2", &calls->init) &&
                        calls->find("nvmlShutdown", &calls->shutdown) &&
                        calls->find("nvmlDeviceGetCount_v2", &calls->count) &&
                        calls->find("nvmlDeviceGetHandleByIndex_v2", &calls->handle) &&
                        calls->find("nvmlDeviceGetUUID", &calls->uuid) &&
                        calls->find("nvmlDeviceGetName", &calls->name) &&
                        calls->find("nvmlDeviceGetMemoryInfo", &calls->memory) &&
                        calls->find("nvmlDeviceGetTotalEccErrors", &calls->ecc_errors);
  const int code = complete ? calls->init() : kSuccess;
  if (!complete || code != kSuccess) {
    ::dlclose(calls->library);
    return refuse(complete ? "NVML does not start, code " + std::to_string(code)
                           : std::string(library) + " lacks a function of NVML");
  }
  unsigned count = 0;
  auto nvml = std::unique_ptr<Nvml>(new Nvml(std::move(calls)));
  if (nvml->calls_->count(&count) != kSuccess || count == 0) return refuse("NVML counts no GPU");
  return nvml;
}

std::vector<FoundGpu> Nvml::gpus() const {
  unsigned count = 0;
  std::vector<FoundGpu> out;
  if (calls_->count(&count) != kSuccess) return out;
  for (unsigned i = 0; i < count; ++i) {
    FoundGpu gpu;
    Device device = nullptr;
    char text[kTextMax] = "";
    NvmlMemory memory{};
    gpu.healthy = calls_->handle(i, &device) == kSuccess;
    if (gpu.healthy && calls_->uuid(device, text, kTextMax) == kSuccess) gpu.uuid = text;
    if (gpu.healthy && calls_->name(device, text, kTextMax) == kSuccess) gpu.model = text;
    if (gpu.healthy && calls_->memory(device, &memory) == kSuccess) {
      gpu.memory_bytes = static_cast<std::int64_t>(memory.total);
    }
    // A card without ECC answers "not supported" and counts as healthy.
    unsigned long long errors = 0;
    if (gpu.healthy &&
        calls_->ecc_errors(device, kUncorrectedErrors, kVolatileCounter, &errors) == kSuccess) {
      gpu.healthy = errors == 0;
    }
    std::replace(gpu.model.begin(), gpu.model.end(), ' ', '-');
    if (gpu.uuid.empty()) gpu.uuid = "gpu-" + std::to_string(i);
    out.push_back(std::move(gpu));
  }
  return out;
}

}  // namespace ebb::agent
