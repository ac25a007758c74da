#include "agent/shim/pod_process.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "agent/shim/processes.hpp"

namespace ebb::agent {
namespace {
constexpr int kNotFound = 127, kNotStarted = 126;
constexpr std::size_t kStackBytes = 256 * 1024;

/// What the child tells before it becomes the program; in memory that both see.
struct Told {
  bool alive = false;  // it came to its first instruction
  std::int64_t start = 0;
  int exit_code = 0;
  char error[512] = {};  // set: it could not become the program
};

struct Plan {
  const ShimSpec& spec;
  int log_pipe;
  Told* told;
  std::vector<char*> argv, envp;
};

[[noreturn]] void fail(Told* told, const char* what, const std::string& subject) {
  told->exit_code = errno == ENOENT ? kNotFound : kNotStarted;
  ::snprintf(told->error, sizeof told->error, "%s %s: %s", what, subject.c_str(),
             ::strerror(errno));
  ::_exit(kNotStarted);
}

std::string identity_of(const ShimSpec& spec, std::int64_t start) {
  return "boot_id=" + spec.boot_id + "\npid=" + std::to_string(::getpid()) +
         "\nstart=" + std::to_string(start) + "\nshim=" + std::to_string(::getppid()) +
         "\nlog=" + spec.log_path + "\ncgroup=" + spec.cgroup + "\nport=" + spec.port + "\n";
}

/// In the child. It writes its own identity, so nothing of the program runs before that is there.
int become_pod(void* argument) {
  const Plan& plan = *static_cast<Plan*>(argument);
  const ShimSpec& spec = plan.spec;
  plan.told->alive = true;
  ::setsid();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signo = 1; signo < NSIG; ++signo) ::signal(signo, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(plan.log_pipe, STDOUT_FILENO);
  ::dup2(plan.log_pipe, STDERR_FILENO);
  ::umask(077);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(plan.told, "no_new_privs", "");
  if (::chdir(spec.workdir.c_str()) != 0) fail(plan.told, "working directory", spec.workdir);
  plan.told->start = start_of(::getpid());
  const std::string identity = spec.directory + "/identity";
  if (!replace_file(identity, identity_of(spec, plan.told->start))) {
    fail(plan.told, "cannot write", identity);
  }
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  environ = const_cast<char**>(plan.envp.data());
  ::execvp(plan.argv[0], const_cast<char**>(plan.argv.data()));
  fail(plan.told, "cannot run", spec.command[0]);
}

/// Runs the child until it is the program or has ended; meanwhile this process stands still.
/// Answers the pid, -1 with errno.
pid_t start_child(Plan* plan) {
  if (!plan->spec.cgroup.empty()) {
    // Born there: moving a process later would wait for the kernel's grace period.
    const int fd = ::open(plan->spec.cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
      clone_args args{};
      args.flags = CLONE_INTO_CGROUP | CLONE_VFORK;
      args.exit_signal = SIGCHLD;
      args.cgroup = static_cast<std::uint64_t>(fd);
      const long pid = ::syscall(SYS_clone3, &args, sizeof args);
      if (pid == 0) ::_exit(become_pod(plan));
      ::close(fd);
      if (pid > 0) return static_cast<pid_t>(pid);
    }
  }
#ifdef __SANITIZE_ADDRESS__
  const int memory = 0;  // the sanitizer does not follow two processes in one memory
#else
  const int memory = CLONE_VM;  // no page table to copy
#endif
  alignas(16) static char stack[kStackBytes];
  return ::clone(become_pod, stack + kStackBytes, CLONE_VFORK | memory | SIGCHLD, plan);
}

/// One try. False: the child died before its first instruction.
bool try_start(const ShimSpec& spec, PodProcess* pod) {
  int log[2];
  void* shared =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || ::pipe2(log, O_CLOEXEC) != 0) {
    pod->error = std::string("cannot make a pipe: ") + ::strerror(errno);
    return true;
  }
  Told* told = new (shared) Told;
  Plan plan{spec, log[1], told, {}, {}};
  for (const std::string& word : spec.command) plan.argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : spec.env) plan.envp.push_back(const_cast<char*>(entry.c_str()));
  plan.argv.push_back(nullptr);
  plan.envp.push_back(nullptr);
  char** const own_environment = environ;
  pod->pid = start_child(&plan);
  const int error = errno;
  environ = own_environment;
  ::close(log[1]);
  const bool came_alive = told->alive;
  if (pod->pid < 0) {
    pod->error = std::string("cannot fork: ") + ::strerror(error);
  } else if (!came_alive || told->error[0] != '\0') {
    pod->error = told->error;
    pod->exit_code = told->exit_code;
    ::waitpid(pod->pid, nullptr, 0);
  } else {
    pod->start = told->start;
    pod->log_pipe = log[0];
    ::fcntl(pod->log_pipe, F_SETFL, O_NONBLOCK);
  }
  if (pod->log_pipe != log[0]) ::close(log[0]);
  ::munmap(shared, sizeof(Told));
  return came_alive || pod->pid < 0;
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
