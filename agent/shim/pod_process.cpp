#include "agent/shim/pod_process.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shim/processes.hpp"

namespace ebb::agent {
namespace {
constexpr char kReady = 'r';  // the child's first byte: it is alive and waits at the gate
constexpr int kNotFound = 127, kNotStarted = 126;

/// fork() into a cgroup: moving a process there later would wait for the kernel's grace period.
pid_t fork_into(const std::string& cgroup) {
  if (!cgroup.empty()) {
    const int fd = ::open(cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
      clone_args args{};
      args.flags = CLONE_INTO_CGROUP;
      args.exit_signal = SIGCHLD;
      args.cgroup = static_cast<std::uint64_t>(fd);
      const long pid = ::syscall(SYS_clone3, &args, sizeof args);
      if (pid != 0) ::close(fd);
      if (pid >= 0) return static_cast<pid_t>(pid);
    }
  }
  return ::fork();
}

[[noreturn]] void fail(int error_pipe, const char* what, const std::string& subject) {
  const std::string text = std::to_string(errno == ENOENT ? kNotFound : kNotStarted) + " " + what +
                           " " + subject + ": " + ::strerror(errno);
  const ssize_t ignored = ::write(error_pipe, text.data(), text.size());
  static_cast<void>(ignored);
  ::_exit(kNotStarted);
}

[[noreturn]] void become_pod(const ShimSpec& spec, int gate, int error_pipe, int log_pipe) {
  ::setsid();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signo = 1; signo < NSIG; ++signo) ::signal(signo, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log_pipe, STDOUT_FILENO);
  ::dup2(log_pipe, STDERR_FILENO);
  ::umask(077);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(error_pipe, "no_new_privs", "");
  if (::chdir(spec.workdir.c_str()) != 0) fail(error_pipe, "working directory", spec.workdir);
  std::vector<char*> argv, envp;
  for (const std::string& word : spec.command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : spec.env) envp.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  // Everything else closes at exec; the gate opens when the identity is durable, and never if the
  // shim dies before.
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  char go = 0;
  if (::write(error_pipe, &kReady, 1) != 1) ::_exit(kNotStarted);
  if (::read(gate, &go, 1) != 1) ::_exit(kNotStarted);
  environ = envp.data();
  ::execvp(argv[0], argv.data());
  fail(error_pipe, "cannot run", spec.command[0]);
}

ssize_t read_some(int fd, char* out, std::size_t size) {
  ssize_t n = 0;
  while ((n = ::read(fd, out, size)) < 0 && errno == EINTR) {
  }
  return n;
}

std::string identity_of(const ShimSpec& spec, const PodProcess& pod) {
  return "boot_id=" + spec.boot_id + "\npid=" + std::to_string(pod.pid) +
         "\nstart=" + std::to_string(pod.start) + "\nshim=" + std::to_string(::getpid()) +
         "\nlog=" + spec.log_path + "\ncgroup=" + spec.cgroup + "\nport=" + spec.port + "\n";
}

/// One try. False: the child died before it was ready.
bool try_start(const ShimSpec& spec, PodProcess* pod) {
  int log[2], gate[2], error[2];
  if (::pipe2(log, O_CLOEXEC) != 0 || ::pipe2(gate, O_CLOEXEC) != 0 ||
      ::pipe2(error, O_CLOEXEC) != 0) {
    pod->error = std::string("cannot make pipes: ") + ::strerror(errno);
    return true;
  }
  pod->pid = fork_into(spec.cgroup);
  if (pod->pid == 0) {
    ::close(gate[1]);
    become_pod(spec, gate[0], error[1], log[1]);
  }
  const int fork_errno = errno;
  for (const int fd : {log[1], gate[0], error[1]}) ::close(fd);
  if (pod->pid < 0) {
    pod->error = std::string("cannot fork: ") + ::strerror(fork_errno);
    return true;
  }
  char first = 0;
  const bool ready = read_some(error[0], &first, 1) == 1;
  if (!ready) {
    for (const int fd : {log[0], gate[1], error[0]}) ::close(fd);
    ::waitpid(pod->pid, nullptr, 0);
    return false;
  }
  pod->log_pipe = log[0];
  ::fcntl(pod->log_pipe, F_SETFL, O_NONBLOCK);
  pod->start = start_of(pod->pid);
  std::string said;
  if (first != kReady) {
    said = first;
  } else if (!write_file_durably(spec.directory + "/identity", identity_of(spec, *pod))) {
    pod->error = std::string("cannot write identity: ") + ::strerror(errno);
  } else {
    const ssize_t ignored = ::write(gate[1], "g", 1);
    static_cast<void>(ignored);
  }
  ::close(gate[1]);
  char text[4096];
  const ssize_t size = read_some(error[0], text, sizeof text);
  ::close(error[0]);
  if (size > 0) said.append(text, static_cast<std::size_t>(size));
  if (!said.empty() && pod->error.empty()) {
    pod->exit_code = ::atoi(said.c_str());
    pod->error = said.substr(said.find(' ') + 1);
  }
  if (!pod->error.empty()) ::waitpid(pod->pid, nullptr, 0);
  return true;
}
}  // namespace

PodProcess start_pod(const ShimSpec& spec) {
  PodProcess pod;
  pod.exit_code = kNotStarted;
  if (spec.command.empty()) {
    pod.error = "the command is empty";
    return pod;
  }
  if (try_start(spec, &pod)) return pod;
  // Killed in the cgroup before its first instruction: the kernel took it for part of an earlier
  // kill there.
  ShimSpec plain = spec;
  plain.cgroup.clear();
  if (!try_start(plain, &pod)) pod.error = "the process was killed before it could start";
  return pod;
}

}  // namespace ebb::agent
