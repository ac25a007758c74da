#include "sim/soak/many.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

namespace ebb::sim {
namespace {
/// What a child tells of one seed. Flat, so that it can be written as it lies.
struct Told {
  std::uint64_t seed = 0;
  bool begun_only = false;
  bool failed = false;
  std::uint64_t hash = 0;
  std::int64_t virtual_ms = 0;
  Counters counters;
  std::uint64_t checks = 0, evictions = 0, needless = 0, submitted = 0, started = 0;
  std::array<std::uint64_t, kFaultKinds> faults{};
  std::uint64_t text_bytes = 0;  // of the failure, follows
};

struct Sums {
  std::uint64_t seeds = 0, failed = 0;
  std::int64_t virtual_ms = 0;
  Counters counters;
  std::uint64_t checks = 0, evictions = 0, needless = 0, submitted = 0, started = 0;
  std::array<std::uint64_t, kFaultKinds> faults{};
  void add(const Told& told) {
    ++seeds;
    failed += told.failed ? 1 : 0;
    virtual_ms += told.virtual_ms;
    counters.steps += told.counters.steps;
    counters.sent += told.counters.sent;
    counters.delivered += told.counters.delivered;
    counters.dropped += told.counters.dropped;
    counters.doubled += told.counters.doubled;
    counters.replayed += told.counters.replayed;
    counters.delayed += told.counters.delayed;
    counters.cut += told.counters.cut;
    counters.nobody += told.counters.nobody;
    counters.saves += told.counters.saves;
    counters.deposed += told.counters.deposed;
    checks += told.checks;
    evictions += told.evictions;
    needless += told.needless;
    submitted += told.submitted;
    started += told.started;
    for (std::size_t i = 0; i < faults.size(); ++i) faults[i] += told.faults[i];
  }
};

struct Child {
  pid_t pid = 0;
  int fd = -1;
  std::uint64_t next = 0;  // seed it is at
  std::uint64_t end = 0;   // not included
  std::string bytes;
};

void write_all(int fd, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::write(fd, at, size);
    if (done <= 0) _exit(3);  // nobody reads any more
    at += done;
    size -= static_cast<std::size_t>(done);
  }
}

[[noreturn]] void run_seeds(int fd, std::uint64_t first, std::uint64_t end, std::uint64_t step,
                            Checks checks) {
  for (std::uint64_t seed = first; seed < end; seed += step) {
    const Plan plan = plan_of(seed);
    const RunResult result = run(plan, {checks, nullptr});
    Told told;
    told.seed = seed;
    told.failed = result.violation.has_value();
    told.hash = result.hash;
    told.virtual_ms = result.virtual_ms;
    told.counters = result.counters;
    told.checks = result.checks;
    told.evictions = result.evictions;
    told.needless = result.needless;
    told.submitted = result.submitted;
    told.started = result.started;
    told.faults = result.faults;
    std::ostringstream text;
    if (told.failed) print_failure(text, seed, "", result);
    const std::string said = text.str();
    told.text_bytes = said.size();
    write_all(fd, &told, sizeof told);
    write_all(fd, said.data(), said.size());
  }
  _exit(0);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2)
       << (whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole))
       << '%';
  return text.str();
}

void print_report(std::ostream& out, const Sums& sums, double seconds) {
  const Counters& c = sums.counters;
  out << "seeds " << sums.seeds << ", violations " << sums.failed << ", virtual hours "
      << std::fixed << std::setprecision(1) << static_cast<double>(sums.virtual_ms) / 3.6e6
      << ", steps " << c.steps << ", invariant checks " << sums.checks << '\n'
      << "messages: sent " << c.sent << ", delivered " << c.delivered << ", dropped " << c.dropped
      << ", doubled " << c.doubled << ", replayed " << c.replayed << ", delayed " << c.delayed
      << ", cut " << c.cut << ", nobody there " << c.nobody << '\n'
      << "saves " << c.saves << ", refused for their epoch " << c.deposed << "; workloads "
      << sums.submitted << ", processes started " << sums.started << ", evictions "
      << sums.evictions << ", of these for a claimant that never ran " << sums.needless << " ("
      << percent(sums.needless, sums.evictions) << ")\n"
      << "faults:";
  for (int i = 0; i < kFaultKinds; ++i) {
    out << ' ' << name_of(static_cast<Fault>(i)) << ' ' << sums.faults[static_cast<std::size_t>(i)];
  }
  out << '\n'
      << std::setprecision(1) << seconds << " s, " << std::setprecision(0)
      << static_cast<double>(c.delivered) / std::max(0.001, seconds) << " messages/s\n";
}

class Many {
 public:
  Many(const ManyOptions& options, std::ostream& out) : options_(options), out_(out) {}

  std::uint64_t run_all() {
    const auto begun = std::chrono::steady_clock::now();
    const std::uint64_t end = options_.first + options_.seeds;
    for (unsigned j = 0; j < options_.jobs; ++j) {
      if (options_.first + j < end) begin(options_.first + j, end);
    }
    while (!children_.empty()) read_some();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    print_report(out_, sums_, took.count());
    return sums_.failed;
  }

 private:
  void begin(std::uint64_t first, std::uint64_t end) {
    if (first >= end || sums_.failed >= options_.failures_most) return;
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
    out_.flush();
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("fork failed");
    if (pid == 0) {
      ::close(ends[0]);
      run_seeds(ends[1], first, end, options_.jobs, options_.checks);
    }
    ::close(ends[1]);
    children_[ends[0]] = Child{pid, ends[0], first, end, {}};
  }

  void read_some() {
    std::vector<pollfd> fds;
    for (const auto& [fd, child] : children_) fds.push_back({fd, POLLIN, 0});
    ::poll(fds.data(), fds.size(), -1);
    for (const pollfd& ready : fds) {
      if (ready.revents == 0) continue;
      Child& child = children_.at(ready.fd);
      char buffer[65536];
      const ssize_t got = ::read(ready.fd, buffer, sizeof buffer);
      if (got > 0) {
        child.bytes.append(buffer, static_cast<std::size_t>(got));
        take(child);
      } else {
        over(ready.fd);
      }
    }
  }

  void take(Child& child) {
    Told told;
    while (child.bytes.size() >= sizeof told) {
      std::memcpy(&told, child.bytes.data(), sizeof told);
      if (child.bytes.size() < sizeof told + told.text_bytes) return;
      if (told.failed) out_ << child.bytes.substr(sizeof told, told.text_bytes) << std::flush;
      child.bytes.erase(0, sizeof told + told.text_bytes);
      child.next = told.seed + options_.jobs;
      sums_.add(told);
      if (sums_.failed >= options_.failures_most) ::kill(child.pid, SIGTERM);
    }
  }

  void over(int fd) {
    const Child child = children_.at(fd);
    children_.erase(fd);
    ::close(fd);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (sums_.failed >= options_.failures_most) return;
    Told told;
    told.seed = child.next;
    told.failed = true;
    sums_.add(told);
    out_ << "FAILED seed " << child.next << ": the program stopped ("
         << (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                 : "exit " + std::to_string(WEXITSTATUS(status)))
         << ")\n  replay: ebb-sim seed " << child.next << "\n"
         << std::flush;
    begin(child.next + options_.jobs, child.end);
  }

  const ManyOptions options_;
  std::ostream& out_;
  Sums sums_;
  std::map<int, Child> children_;
};
}  // namespace

void print_failure(std::ostream& out, std::uint64_t seed, const std::string& without,
                   const RunResult& result) {
  const Violation& violation = *result.violation;
  out << "FAILED seed " << seed << ": " << violation.invariant << " at step " << violation.step
      << ", " << violation.at_ms << " ms: " << violation.text << "\n  replay: ebb-sim seed "
      << seed;
  if (!without.empty()) out << " --without '" << without << "'";
  out << "\n  before it:\n";
  for (const std::string& line : result.last_events) out << "    " << line << '\n';
}

std::uint64_t soak_many(const ManyOptions& options, std::ostream& out) {
  return Many(options, out).run_all();
}

}  // namespace ebb::sim
