// A real process of a test, with its first line of output. Killed at the end of the test if it
// still runs.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

namespace ebb::tests {

class Program {
 public:
  explicit Program(std::vector<std::string> words) {
    int out[2], err[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) return;
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    out_ = out[0];
    err_ = err[0];
    ::fcntl(err_, F_SETFL, O_NONBLOCK);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      (void)wait();
    }
    ::close(out_);
    ::close(err_);
  }
  /// The first line of stdout; empty if none comes within `seconds`, or the process ends before.
  std::string first_line(int seconds = 30) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    std::string line;
    while (std::chrono::steady_clock::now() < deadline) {
      pollfd fds[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
      (void)::poll(fds, 2, 100);
      drain_errors();  // else a talkative program blocks
      if ((fds[0].revents & (POLLIN | POLLHUP)) == 0) continue;
      char c = 0;
      while (::read(out_, &c, 1) == 1) {
        if (c == '\n') return line;
        line += c;
      }
      return {};
    }
    return {};
  }
  void signal(int number) { ::kill(pid_, number); }
  /// Waits for its end. The exit code, or 128 + signal.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      pollfd fd{err_, POLLIN, 0};
      (void)::poll(&fd, 1, 20);
      drain_errors();
    }
    drain_errors();
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// What it wrote to stderr until now.
  const std::string& errors() const { return errors_; }
  pid_t pid() const { return pid_; }

 private:
  void drain_errors() {
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(err_, buffer, sizeof buffer)) > 0;) {
      errors_.append(buffer, static_cast<std::size_t>(n));
    }
  }
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::string errors_;
};

}  // namespace ebb::tests
