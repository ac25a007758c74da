// Cgroups (v2) of pods, where the machine has a hierarchy the agent may write to; controllers are
// not needed. A cgroup finds and ends also what the shim, should it be killed itself, could no
// longer find.
#pragma once
#include <string>

namespace ebb::agent {

class Cgroups {
 public:
  /// Under the agent's own cgroup in the first v2 hierarchy found. Where that cannot be, `make`
  /// answers "".
  static Cgroups find();
  bool available() const { return !root_.empty(); }
  const std::string& root() const { return root_; }
  /// A new, empty cgroup; "" if it cannot be made.
  std::string make(const std::string& name) const;

 private:
  std::string root_;
};

}  // namespace ebb::agent
