#include "agent/leftovers.hpp"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "agent/shim/processes.hpp"

namespace ebb::agent {
namespace {
std::vector<pid_t> in_cgroup(const std::string& cgroup) {
  std::vector<pid_t> out;
  std::istringstream list(read_file(cgroup + "/cgroup.procs"));
  for (pid_t pid = 0; list >> pid;) {
    if (start_of(pid) != 0) out.push_back(pid);
  }
  return out;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> out;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return out;
  while (const dirent* entry = ::readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0) out.push_back(pid);
  }
  ::closedir(proc);
  return out;
}
}  // namespace

std::vector<pid_t> leftovers_of(const Identity& identity, const std::string& mark) {
  switch (population_of(identity.cgroup)) {
    case Population::Empty:
      return {};
    case Population::Populated:
      return in_cgroup(identity.cgroup);
    case Population::Unknown:
      break;
  }
  const std::string wanted = "EBB_POD_MARK=" + mark + '\0';
  std::vector<pid_t> out;
  for (const pid_t pid : all_processes()) {
    const std::int64_t start = start_of(pid);
    if (start == 0 || start < identity.start) continue;
    const std::string environment = '\0' + read_file("/proc/" + std::to_string(pid) + "/environ");
    if (::getsid(pid) == identity.pid || environment.find('\0' + wanted) != std::string::npos) {
      out.push_back(pid);
    }
  }
  return out;
}

void kill_leftovers(const Identity& identity, const std::string& mark) {
  if (population_of(identity.cgroup) == Population::Populated) kill_cgroup(identity.cgroup);
  for (const pid_t pid : leftovers_of(identity, mark)) ::kill(pid, SIGKILL);
}

bool main_process_lives(const Identity& identity) {
  return start_of(identity.pid) == identity.start;
}

}  // namespace ebb::agent
