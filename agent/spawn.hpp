// Starts shims.
#pragma once
#include <sys/types.h>

#include <string>

#include "agent/shim/spec.hpp"
#include "base/result.hpp"

namespace ebb::agent {

/// Where shims come from: a process of the shim's program that forks one for each pod. It is
/// started with the first pod, and anew when it was killed.
class ShimNursery {
 public:
  explicit ShimNursery(std::string shim_program) : program_(std::move(shim_program)) {}
  ~ShimNursery();  // its shims go on
  ShimNursery(const ShimNursery&) = delete;
  ShimNursery& operator=(const ShimNursery&) = delete;

  /// `spec.directory` exists. Answers the connected control socket, not blocking, the caller's to
  /// close; -1 where the shim has ended already. Refused where the machine gives no process or
  /// socket.
  Result<int> start_shim(const ShimSpec& spec);

 private:
  bool open();
  void close();
  const std::string program_;
  int socket_ = -1;
  pid_t pid_ = 0;
};

/// Connects to the shim of a pod's directory. -1: no shim lives there.
int connect_to_shim(const std::string& pod_directory);

/// A TCP port that nobody listens on now, from 20000 to 31999, below those the kernel gives to
/// clients. 0: none.
unsigned choose_port(unsigned after);

}  // namespace ebb::agent
