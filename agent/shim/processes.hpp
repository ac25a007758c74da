// Processes as the kernel shows them: when one was started, who its children are, whether a cgroup
// is empty.
//
// Units: start times in clock ticks since boot (field 22 of /proc/PID/stat): with the pid they name
// one process until the next boot. Errors: what cannot be read is no process. Used by the shim and
// by the agent.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ebb::agent {

/// 0: there is no such process, or it is a zombie.
std::int64_t start_of(pid_t pid);
/// Direct children, zombies included.
std::vector<pid_t> children_of(pid_t pid);
/// SIGKILL to everything below `pid`, not to itself.
void kill_below(pid_t pid);
/// SIGKILL to all processes of a cgroup and those below it, also those that are being forked.
void kill_cgroup(const std::string& directory);
enum class Population { Empty, Populated, Unknown };
Population population_of(const std::string& cgroup_directory);

/// The whole content of a small file; empty if it cannot be read.
std::string read_file(const std::string& path);
/// Replaces the file's content; who reads it sees the old or the new one. Not durable: for what is
/// worth nothing once the kernel that runs the process is gone.
bool replace_file(const std::string& path, const std::string& content);
/// The same; durable when it returns true.
bool write_file_durably(const std::string& path, const std::string& content);

}  // namespace ebb::agent
