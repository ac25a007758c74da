#include "agent/cgroups.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "agent/shim/processes.hpp"

namespace ebb::agent {
namespace {
std::string v2_mount_point() {
  std::istringstream mounts(read_file("/proc/self/mounts"));
  std::string device, point, type, rest;
  while (mounts >> device >> point >> type && std::getline(mounts, rest)) {
    if (type == "cgroup2") return point;
  }
  return {};
}

/// "/system.slice/ebb-agent.service"; "" for the root.
std::string own_path() {
  std::istringstream lines(read_file("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("0::", 0) == 0) return line == "0::/" ? "" : line.substr(3);
  }
  return {};
}
}  // namespace

Cgroups Cgroups::find() {
  Cgroups out;
  const std::string mount = v2_mount_point();
  if (mount.empty()) return out;
  out.root_ = mount + own_path() + "/ebb-pods";
  const std::string probe = out.make("probe-" + std::to_string(::getpid()));
  if (probe.empty() || population_of(probe) != Population::Empty) out.root_.clear();
  if (!probe.empty()) ::rmdir(probe.c_str());
  return out;
}

std::string Cgroups::make(const std::string& name) const {
  if (root_.empty()) return {};
  const std::string path = root_ + "/" + name;
  if (::mkdir(path.c_str(), 0700) == 0) return path;
  if (errno == ENOENT && ::mkdir(root_.c_str(), 0700) == 0) {
    return ::mkdir(path.c_str(), 0700) == 0 ? path : std::string();
  }
  // Left over. Never used again: kernels were seen to kill at once what is cloned into a cgroup
  // that was killed before.
  return errno == EEXIST && ::rmdir(path.c_str()) == 0 && ::mkdir(path.c_str(), 0700) == 0
             ? path
             : std::string();
}

}  // namespace ebb::agent
