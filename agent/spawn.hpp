// Starts a shim.
#pragma once
#include <sys/types.h>

#include <string>

#include "agent/shim/spec.hpp"
#include "base/result.hpp"

namespace ebb::agent {

struct Spawned {
  int control = -1;  // connected, not blocking, ours to close
  pid_t helper = 0;  // ends at once and is to be waited for; the shim itself is nobody's child
};
/// `spec.directory` exists. Refused where the machine gives no process or socket.
Result<Spawned> spawn_shim(const std::string& shim_program, const ShimSpec& spec);

/// Connects to the shim of a pod's directory. -1: no shim lives there.
int connect_to_shim(const std::string& pod_directory);

/// A TCP port that nobody listens on now, from 20000 to 31999, below those the kernel gives to
/// clients. 0: none.
unsigned choose_port(unsigned after);

}  // namespace ebb::agent
