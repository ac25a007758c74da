// ebb_day_dev_instance: a person's development machine in the reference day: it is there, and idles
// until SIGTERM.
#include <unistd.h>

#include <csignal>
#include <cstdio>

int main() {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigaddset(&end, SIGINT);
  sigprocmask(SIG_BLOCK, &end, nullptr);
  std::printf("ready pid=%d\n", getpid());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&end, &signal);
  return 0;
}
