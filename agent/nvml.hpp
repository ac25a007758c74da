// The machine's NVIDIA GPUs, by the driver's own library, loaded when the agent runs: Ebb builds
// and runs without it.
//
// Units: bytes. Errors: no library, no driver: a refusal that says how nodes can be declared
// instead. Source: NVML API reference (nvmlInit_v2, nvmlDeviceGetHandleByIndex_v2,
// nvmlDeviceGetTotalEccErrors).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ebb::agent {

struct FoundGpu {
  std::string uuid;
  std::string model;  // "NVIDIA A100-SXM4-80GB", blanks as '-'
  std::int64_t memory_bytes = 0;
  bool healthy = true;  // answers, and has no uncorrected memory errors since the driver was loaded
};

class Nvml {
 public:
  static Result<std::unique_ptr<Nvml>> open(const char* library = "libnvidia-ml.so.1");
  ~Nvml();
  /// By number, as the driver sees them now.
  std::vector<FoundGpu> gpus() const;

 private:
  struct Calls;
  explicit Nvml(std::unique_ptr<Calls> calls);
  std::unique_ptr<Calls> calls_;
};

}  // namespace ebb::agent
