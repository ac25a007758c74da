#include "agent/shim/processes.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace ebb::agent {
namespace {
constexpr int kStateField = 3, kStartField = 22;

bool write_all(int fd, const std::string& content) {
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

bool replace(const std::string& path, const std::string& content, bool durably) {
  const std::string fresh = path + ".new";
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool written = write_all(fd, content) && (!durably || ::fdatasync(fd) == 0);
  ::close(fd);
  return written && ::rename(fresh.c_str(), path.c_str()) == 0;
}
}  // namespace

std::string read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string out;
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) break;
    out.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return out;
}

bool replace_file(const std::string& path, const std::string& content) {
  return replace(path, content, false);
}

bool write_file_durably(const std::string& path, const std::string& content) {
  return replace(path, content, true);
}

std::int64_t start_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  // The name in brackets may hold anything, so counting starts behind its last bracket.
  std::size_t at = stat.rfind(')');
  if (at == std::string::npos) return 0;
  for (int field = kStateField - 1; field < kStartField; ++field) {
    at = stat.find(' ', at);
    if (at == std::string::npos) return 0;
    ++at;
    if (field + 1 == kStateField && (stat[at] == 'Z' || stat[at] == 'X')) return 0;
  }
  return ::strtoll(stat.c_str() + at, nullptr, 10);
}

std::vector<pid_t> children_of(pid_t pid) {
  const std::string task = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid);
  const std::string list = read_file(task + "/children");
  std::vector<pid_t> out;
  const char* at = list.c_str();
  for (;;) {
    char* end = nullptr;
    const long child = ::strtol(at, &end, 10);
    if (end == at) return out;
    out.push_back(static_cast<pid_t>(child));
    at = end;
  }
}

void kill_below(pid_t pid) {
  for (const pid_t child : children_of(pid)) {
    // Stopped first, so that it cannot fork while its children are being read.
    ::kill(child, SIGSTOP);
    kill_below(child);
    ::kill(child, SIGKILL);
  }
}

void kill_cgroup(const std::string& directory) {
  const int fd = ::open((directory + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    const bool killed = ::write(fd, "1", 1) == 1;
    ::close(fd);
    if (killed) return;
  }
  // Kernels before 5.14: one by one; who calls repeats until the group is empty.
  const std::string list = read_file(directory + "/cgroup.procs");
  const char* at = list.c_str();
  for (;;) {
    char* end = nullptr;
    const long pid = ::strtol(at, &end, 10);
    if (end == at) return;
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    at = end;
  }
}

Population population_of(const std::string& cgroup_directory) {
  if (cgroup_directory.empty()) return Population::Unknown;
  const std::string events = read_file(cgroup_directory + "/cgroup.events");
  const std::size_t at = events.find("populated ");
  if (at == std::string::npos) return Population::Unknown;
  return events[at + strlen("populated ")] == '0' ? Population::Empty : Population::Populated;
}

}  // namespace ebb::agent
