// The start of a pod's main process.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "agent/shim/spec.hpp"

namespace ebb::agent {

struct PodProcess {
  pid_t pid = 0;
  std::int64_t start = 0;  // clock ticks since boot
  int log_pipe = -1;       // its stdout and stderr, not blocking
  int exit_code = 0;       // where it could not be started: 127 not found, 126 anything else
  std::string error;       // set: it could not be started, and no process of it is left
};

/// Starts the program of `spec` in its own session, in its cgroup if there is one. Its identity
/// (pid, start) is written to DIRECTORY/identity before the program runs. Returns when it runs or
/// has failed.
PodProcess start_pod(const ShimSpec& spec);

}  // namespace ebb::agent
