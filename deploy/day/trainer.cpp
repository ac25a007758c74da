// ebb_day_trainer: a small real trainer, the training job of the reference day, tests and
// benchmarks.
//
//   ebb_day_trainer --steps N [--step-ms MS] [--every N] [--print N] [--seed N] [--save-ms MS]
//
// Trains N steps in all, one every MS of real time. Rank 0 checkpoints every `--every` steps and on
// SIGTERM to $EBB_CHECKPOINT_DIR and goes on from there when it is started again. SIGTERM ends the
// step at hand, saves (taking
// `--save-ms` longer, as a big model would) and exits 143. Other ranks compute their share and keep
// no state. Exit codes: 0 all steps done, 2 bad arguments, 3 damaged or unwritable checkpoint, 143
// told to stop.
#include <getopt.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "deploy/day/checkpoint.hpp"
#include "deploy/day/model.hpp"

namespace {

using namespace ebb::day;

volatile std::sig_atomic_t told_to_stop = 0;

struct Options {
  std::uint64_t steps = 0;
  std::uint64_t step_ms = 100;
  std::uint64_t every = 50;
  std::uint64_t print = 50;
  std::uint64_t seed = 1;
  std::uint64_t save_ms = 0;
};

[[noreturn]] void bad(const std::string& what) {
  std::fprintf(stderr, "ebb_day_trainer: %s\n", what.c_str());
  std::exit(2);
}

std::uint64_t whole(const char* name, const char* text, std::uint64_t least) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < least ||
      number > 1'000'000'000) {
    bad(std::string("--") + name + " is \"" + text + "\", allowed are whole numbers from " +
        std::to_string(least) + " to 1000000000");
  }
  return number;
}

Options read_options(int argc, char** argv) {
  static const option kOptions[] = {{"steps", required_argument, nullptr, 's'},
                                    {"step-ms", required_argument, nullptr, 'm'},
                                    {"every", required_argument, nullptr, 'e'},
                                    {"print", required_argument, nullptr, 'p'},
                                    {"seed", required_argument, nullptr, 'r'},
                                    {"save-ms", required_argument, nullptr, 'w'},
                                    {nullptr, 0, nullptr, 0}};
  Options options;
  for (int one = 0; (one = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    switch (one) {
      case 's':
        options.steps = whole("steps", optarg, 1);
        break;
      case 'm':
        options.step_ms = whole("step-ms", optarg, 0);
        break;
      case 'e':
        options.every = whole("every", optarg, 1);
        break;
      case 'p':
        options.print = whole("print", optarg, 1);
        break;
      case 'r':
        options.seed = whole("seed", optarg, 0);
        break;
      case 'w':
        options.save_ms = whole("save-ms", optarg, 0);
        break;
      default:
        std::exit(2);
    }
  }
  if (optind != argc) bad(std::string("unknown argument \"") + argv[optind] + "\"");
  if (options.steps == 0) bad("--steps must be given");
  return options;
}

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

/// Waits until `due`, or less if told to stop. The moment is absolute, so the pace does not drift.
void wait_until(const timespec& due) {
  while (told_to_stop == 0 &&
         clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
  }
}

void add_ms(timespec& moment, std::uint64_t ms) {
  moment.tv_sec += static_cast<time_t>(ms / 1'000);
  moment.tv_nsec += static_cast<long>(ms % 1'000) * 1'000'000;
  if (moment.tv_nsec >= 1'000'000'000) {
    moment.tv_nsec -= 1'000'000'000;
    ++moment.tv_sec;
  }
}

timespec monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now;
}

}  // namespace

int main(int argc, char** argv) {
  struct sigaction action {};
  action.sa_handler = [](int) { told_to_stop = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);

  const Options options = read_options(argc, argv);
  const std::string directory = environment("EBB_CHECKPOINT_DIR", "");
  const auto rank = static_cast<std::uint32_t>(std::atoi(environment("RANK", "0").c_str()));
  const bool keeps_state = rank == 0;
  const std::string who = "job=" + environment("EBB_JOB_ID", "none") +
                          " attempt=" + environment("EBB_ATTEMPT", "1") +
                          " pid=" + std::to_string(getpid());
  const auto note = [&](const char* event, std::uint64_t step) {
    if (keeps_state) write_journal(directory, event, who + " step=" + std::to_string(step));
  };

  Checkpoint state = load_checkpoint(directory).value_or(Checkpoint{});
  std::printf("start %s rank=%u of=%s step=%llu at=%lld\n", who.c_str(), rank,
              environment("WORLD_SIZE", "1").c_str(), static_cast<unsigned long long>(state.step),
              static_cast<long long>(real_ms()));
  note("start", state.step);

  timespec due = monotonic_now();
  double loss = 0;
  while (state.step < options.steps && told_to_stop == 0) {
    add_ms(due, options.step_ms);
    wait_until(due);
    if (told_to_stop != 0) break;
    loss = train_step(state.model, options.seed, rank, state.step);
    ++state.step;
    if (state.step % options.print == 0) {
      std::printf("step %llu loss %.4f\n", static_cast<unsigned long long>(state.step), loss);
    }
    if (keeps_state && state.step % options.every == 0 && state.step < options.steps) {
      if (save_checkpoint(directory, state)) note("checkpoint", state.step);
    }
  }
  const bool finished = state.step >= options.steps;
  if (!finished) {
    note("signal", state.step);
    if (keeps_state && options.save_ms > 0) {
      timespec until = monotonic_now();
      add_ms(until, options.save_ms);
      while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
      }
    }
  }
  if (keeps_state && !save_checkpoint(directory, state)) return 3;
  note(finished ? "finished" : "saved", state.step);
  std::printf("%s step %llu loss %.4f\n", finished ? "finished" : "stopped",
              static_cast<unsigned long long>(state.step), loss);
  return finished ? 0 : 143;
}
