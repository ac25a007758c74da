// ebb-shim: stands between the agent and one pod. It starts the pod's process, keeps its log and
// its exit code, and ends when no process of the pod is left, whatever becomes of the agent.
//
// It is the subreaper of all that the pod starts: a daemon that left session and process group
// becomes its child when its parent ends. So "no child is left" is the proof that the group is
// empty (RELIABILITY.md, rule R8).
//
// Control socket DIRECTORY/control, one line a message. From the agent: "signal N", "leave N" (a
// signal, and what outlives the main process keeps its time), "kill". To the agent, at its connect
// and on change: "started PID TICKS", "ended CODE", "empty CODE", "failed CODE TEXT". The last of
// it is kept in DIRECTORY/exit, durably, before it is said.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/shim/pod_log.hpp"
#include "agent/shim/pod_process.hpp"
#include "agent/shim/processes.hpp"

namespace ebb::agent {
namespace {

constexpr int kKillEveryMs = 20;
constexpr int kListenersMax = 8;
constexpr int kContactEveryMs = 1'000;
constexpr long long kShimPatienceMs = 2'000;  // as scheduling/node/node_life.hpp has it

long long mono_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000LL + now.tv_nsec / 1'000'000;
}

class Shim {
 public:
  explicit Shim(ShimSpec spec)
      : spec_(std::move(spec)),
        log_(spec_.log_path, ::atoll(spec_.log_bytes_max.c_str()),
             ::atoi(spec_.log_files_max.c_str())),
        stop_after_ms_(::atoll(spec_.stop_after_ms.c_str())),
        began_ms_(mono_ms()) {}

  int run() {
    pod_ = start_pod(spec_);
    if (!pod_.error.empty()) {
      conclude("failed " + std::to_string(pod_.exit_code) + " " + pod_.error);
      return 0;
    }
    say("started " + std::to_string(pod_.pid) + " " + std::to_string(pod_.start));
    while (!reap()) wait();
    while (log_.pump(pod_.log_pipe)) {
      pollfd more{pod_.log_pipe, POLLIN, 0};
      if (::poll(&more, 1, 0) <= 0) break;
    }
    conclude("empty " + std::to_string(exit_code_));
    return 0;
  }

  bool watch_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGCHLD);
    ::sigprocmask(SIG_SETMASK, &set, nullptr);
    signals_ = ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return signals_ >= 0;
  }

 private:
  /// True: no child is left.
  bool reap() {
    int status = 0;
    for (;;) {
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0) return errno == ECHILD;
      if (pid == 0) return false;
      if (pid != pod_.pid) continue;
      exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      main_ended_ = true;
      if (!leaving_) killing_ = true;
      // Alone to the end: one durable line says both.
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        keep("ended " + std::to_string(exit_code_));
        say(kept_);
      }
      if (killing_) kill_all();
    }
  }

  void wait() {
    pollfd fds[3 + kListenersMax] = {
        {signals_, POLLIN, 0}, {kControlFd, POLLIN, 0}, {-1, POLLIN, 0}};
    fds[2].fd = log_open_ ? pod_.log_pipe : -1;
    nfds_t count = 3;
    for (const Listener& listener : listeners_) fds[count++] = {listener.fd, POLLIN, 0};
    const nfds_t listeners = count - 3;
    const int patience_ms = killing_ ? kKillEveryMs : stop_after_ms_ > 0 ? kContactEveryMs : -1;
    const int ready = ::poll(fds, count, patience_ms);
    if (stop_after_ms_ > 0) stop_if_cut_off();
    if (ready < 0) return;
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) > 0) {
    }
    if (fds[2].revents != 0) log_open_ = log_.pump(pod_.log_pipe);
    for (nfds_t i = listeners; i-- > 0;) {
      if (fds[3 + i].revents != 0 && !hear(&listeners_[i])) {
        ::close(listeners_[i].fd);
        listeners_.erase(listeners_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (fds[1].revents != 0) accept_one();
    if (killing_) kill_all();
  }

  /// The agent does this itself while it lives, and says why; this is for when it does not.
  void stop_if_cut_off() {
    if (kill_at_ms_ > 0) {
      killing_ = killing_ || mono_ms() >= kill_at_ms_;
      return;
    }
    long long contact_ms = ::atoll(read_file(spec_.contact_path).c_str());
    if (contact_ms <= 0) contact_ms = began_ms_;
    if (mono_ms() - contact_ms < stop_after_ms_ + kShimPatienceMs) return;
    kill_at_ms_ = mono_ms() + ::atoll(spec_.grace_period_ms.c_str());
    if (!leaving_) obey("leave " + std::to_string(SIGTERM));
  }

  void accept_one() {
    const int fd = ::accept4(kControlFd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    if (listeners_.size() >= kListenersMax) {
      ::close(fd);
      return;
    }
    listeners_.push_back({fd, {}});
    send(fd, started_);
    if (!kept_.empty()) send(fd, kept_);
  }

  struct Listener {
    int fd;
    std::string heard;
  };
  /// False: the other end is gone.
  bool hear(Listener* listener) {
    char buffer[256];
    const ssize_t n = ::read(listener->fd, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n > 0) listener->heard.append(buffer, static_cast<std::size_t>(n));
    for (;;) {
      const std::size_t end = listener->heard.find('\n');
      if (end == std::string::npos) return listener->heard.size() < sizeof buffer;
      obey(listener->heard.substr(0, end));
      listener->heard.erase(0, end + 1);
    }
  }

  void obey(const std::string& line) {
    if (line == "kill") {
      killing_ = true;
    } else if (line.rfind("signal ", 0) == 0) {
      signal_group(::atoi(line.c_str() + 7));
    } else if (line.rfind("leave ", 0) == 0 && !leaving_) {
      leaving_ = true;
      signal_group(::atoi(line.c_str() + 6));
    }
  }

  void signal_group(int signo) {
    if (main_ended_) {
      // The number of an ended group could be another's by now; whoever is left is found as a
      // child.
      for (const pid_t child : children_of(::getpid())) ::kill(child, signo);
    } else {
      ::kill(-pod_.pid, signo);
    }
  }

  void kill_all() {
    if (!spec_.cgroup.empty()) kill_cgroup(spec_.cgroup);
    kill_below(::getpid());
  }

  void keep(const std::string& line) {
    kept_ = line;
    write_file_durably(spec_.directory + "/exit", line + "\n");
  }
  void conclude(const std::string& line) {
    if (!spec_.cgroup.empty()) ::rmdir(spec_.cgroup.c_str());
    keep(line);
    // Whoever is connecting right now reads the file.
    accept_one();
    say(line);
  }
  void say(const std::string& line) {
    if (line.rfind("started", 0) == 0) started_ = line;
    for (const Listener& listener : listeners_) send(listener.fd, line);
  }
  static void send(int fd, const std::string& line) {
    if (line.empty()) return;
    const std::string text = line + "\n";
    ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
  }

  const ShimSpec spec_;
  PodLog log_;
  PodProcess pod_;
  const long long stop_after_ms_, began_ms_;
  long long kill_at_ms_ = 0;  // once it was cut off
  int signals_ = -1;
  std::vector<Listener> listeners_;
  std::string started_, kept_;
  int exit_code_ = 0;
  bool main_ended_ = false, leaving_ = false, killing_ = false, log_open_ = true;
};

std::string read_all(int fd) {
  std::string out;
  char buffer[1 << 16];
  ::lseek(fd, 0, SEEK_SET);
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) return out;
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

int run_shim(int control, int content) {
  ::setsid();
  ::signal(SIGCHLD, SIG_DFL);
  // Above both first, so that neither is overwritten by the other.
  control = ::fcntl(control, F_DUPFD, kSpecFd + 1);
  content = ::fcntl(content, F_DUPFD, kSpecFd + 1);
  if (::dup2(control, kControlFd) < 0 || ::dup2(content, kSpecFd) < 0) return 2;
  ::close_range(kSpecFd + 1, ~0U, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ShimSpec spec;
  if (!read_spec(read_all(kSpecFd), &spec)) return 2;
  ::close(kSpecFd);
  ::fcntl(kControlFd, F_SETFD, FD_CLOEXEC);
  ::fcntl(kControlFd, F_SETFL, O_NONBLOCK);
  Shim shim(std::move(spec));
  return shim.watch_signals() ? shim.run() : 2;
}

/// False: the agent has hung up.
bool receive(int* control, int* content) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(2 * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  for (;;) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    const ssize_t n = ::recvmsg(kNurseryFd, &message, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_len != CMSG_LEN(2 * sizeof(int))) continue;
    int fds[2];
    ::memcpy(fds, CMSG_DATA(header), sizeof fds);
    *control = fds[0];
    *content = fds[1];
    return true;
  }
}

/// The nursery: a small process from which the shims are forked, so that a pod's start costs no
/// exec of a shim, and one build's agent never meets another build's shim. It ends with its agent;
/// its shims do not.
int run_nursery() {
  ::setsid();
  for (const int signo : {SIGPIPE, SIGHUP, SIGTERM, SIGINT, SIGQUIT}) ::signal(signo, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);  // the kernel reaps the shims
  ::umask(077);
  if (::chdir("/") != 0) return 2;
  int control = -1, content = -1;
  while (receive(&control, &content)) {
    const pid_t shim = ::fork();
    if (shim == 0) return run_shim(control, content);
    // Where there is no process to be had, the agent finds the control socket hung up.
    ::close(control);
    ::close(content);
  }
  return 0;
}

}  // namespace
}  // namespace ebb::agent

int main() { return ebb::agent::run_nursery(); }
