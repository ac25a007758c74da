#include "agent/launcher.hpp"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "agent/cgroups.hpp"
#include "agent/leftovers.hpp"
#include "agent/pod_env.hpp"
#include "agent/running_pod.hpp"
#include "agent/shim/processes.hpp"
#include "agent/spawn.hpp"

namespace ebb::agent {
namespace {
constexpr int kNotStarted = 126;
constexpr int kUnknownCode = -1;
constexpr int kLeftoverEveryMs = 50, kCheckpointEveryMs = 2'000;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
using What = v1::ProcessReport;

std::int64_t mono_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  return static_cast<bool>(file.flush());
}
std::int64_t ns_of(const timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }
}  // namespace

std::string read_boot_id() {
  std::string id = read_file("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::int64_t checkpoint_time(const std::string& checkpoint_directory) {
  const std::string last = checkpoint_directory + "/last";
  struct stat link {
  }, target{};
  // A symlink that is set anew counts as well as a file that is written anew.
  if (::lstat(last.c_str(), &link) != 0) return 0;
  if (::stat(last.c_str(), &target) != 0) return ns_of(link.st_mtim);
  return std::max(ns_of(link.st_mtim), ns_of(target.st_mtim));
}

class Launcher::Inside {
 public:
  Inside(LauncherSettings settings, Reported reported, ContactKept contact_kept)
      : settings_(std::move(settings)),
        reported_(std::move(reported)),
        contact_kept_(std::move(contact_kept)),
        files_{settings_.data},
        nursery_(settings_.shim_program),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (settings_.cgroups) cgroups_ = Cgroups::find();
    for (const LauncherNode& node : settings_.nodes) nodes_[node.name].facts = node;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = wake_;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
    thread_ = std::thread([this] { run(); });
  }
  ~Inside() {
    stopping_ = true;
    wake();
    thread_.join();
    for (const auto& [key, pod] : pods_) {
      if (pod.control >= 0) ::close(pod.control);
    }
    ::close(wake_);
    ::close(epoll_);
  }

  void order(const std::string& node, v1::LauncherInbox order) {
    {
      std::lock_guard lock(mutex_);
      orders_.emplace_back(node, std::move(order));
    }
    wake();
  }
  bool uses_cgroups() const { return cgroups_.available(); }

 private:
  using Key = std::pair<std::string, PodName>;
  struct Node {
    LauncherNode facts;
    std::set<PodName> orphans;             // while there are any, nothing is launched
    std::vector<v1::LaunchPod> held_back;  // until then
  };

  void wake() {
    const std::uint64_t one = 1;
    if (::write(wake_, &one, sizeof one) < 0) {
      // Full: the thread is awake anyway.
    }
  }

  // The thread.

  void run() {
    while (!stopping_) {
      epoll_event events[64];
      const int count = ::epoll_wait(epoll_, events, 64, patience_ms());
      for (int i = 0; i < count; ++i) {
        if (events[i].data.fd != wake_) hear(events[i].data.fd);
      }
      std::uint64_t counted = 0;
      if (::read(wake_, &counted, sizeof counted) < 0) {
        // Nothing was signalled; looking is harmless.
      }
      take_orders();
      watch_leftovers();
      watch_checkpoints();
    }
  }

  int patience_ms() const {
    if (!leftovers_.empty()) return kLeftoverEveryMs;
    return pods_.empty() ? -1 : kCheckpointEveryMs;
  }

  void take_orders() {
    std::vector<std::pair<std::string, v1::LauncherInbox>> orders;
    {
      std::lock_guard lock(mutex_);
      orders.swap(orders_);
    }
    for (const auto& [node, order] : orders) obey(node, order);
  }

  void obey(const std::string& node, const v1::LauncherInbox& order) {
    switch (order.message_case()) {
      case v1::LauncherInbox::kLaunch:
        if (!nodes_[node].orphans.empty()) {
          nodes_[node].held_back.push_back(order.launch());
          return;
        }
        return launch(node, order.launch());
      case v1::LauncherInbox::kSignal:
        return signal(node, order.signal());
      case v1::LauncherInbox::kKill:
        return kill(node, name_of(order.kill().key()));
      case v1::LauncherInbox::kProbe:
        return probe(node, order.probe());
      case v1::LauncherInbox::kForget:
        return forget(node, name_of(order.forget().key()));
      case v1::LauncherInbox::kContact:
        return keep_contact(node, order.contact().mono_ms());
      case v1::LauncherInbox::MESSAGE_NOT_SET:
        return;
    }
  }

  // Orders.

  void launch(const std::string& node, const v1::LaunchPod& order) {
    const PodName name = name_of(order.key());
    if (RunningPod* known = find(node, name)) return tell_all(*known);
    const std::string directory = files_.pod_directory(node, name);
    if (read_identity(directory) || read_exit(directory))
      return tell_all(adopt(node, name, directory));
    RunningPod& pod = pods_[{node, name}];
    pod.node = node;
    pod.name = name;
    pod.directory = directory;
    const v1::LaunchSpec& spec = order.spec();
    pod.checkpoint =
        spec.checkpoint_dir().empty() ? files_.checkpoint_directory(name) : spec.checkpoint_dir();
    pod.checkpoint_ns = checkpoint_time(pod.checkpoint);
    pod.identity.log_path = files_.log_path(name);
    pod.identity.port = port_for(order);
    const std::string workdir =
        spec.workdir().empty() ? files_.work_directory(name) : spec.workdir();
    remove_pod_directory(directory);  // of a shim that ended before the pod was started
    for (const std::string& path :
         {directory, std::filesystem::path(pod.identity.log_path).parent_path().string(),
          pod.checkpoint}) {
      if (!make_directories(path)) return fail(pod, path + ": " + std::strerror(errno));
    }
    if (spec.workdir().empty() && !make_directories(workdir)) {
      return fail(pod, workdir + ": " + std::strerror(errno));
    }
    ShimSpec shim;
    shim.directory = directory;
    shim.boot_id = settings_.boot_id;
    shim.log_path = pod.identity.log_path;
    shim.log_bytes_max = std::to_string(settings_.log_bytes_max);
    shim.log_files_max = std::to_string(settings_.log_files_max);
    shim.cgroup = cgroups_.make(std::to_string(std::hash<std::string>()(mark_of(pod))) + "." +
                                pod_file_name(name));
    shim.workdir = workdir;
    shim.port = std::to_string(pod.identity.port);
    shim.stop_after_ms = std::to_string(order.stop_after_ms());
    shim.grace_period_ms = std::to_string(order.grace_period_ms());
    shim.contact_path = files_.contact_path(node);
    shim.command = pod_command(spec);
    shim.env = pod_environment(order, {.node = node,
                                       .gpu_ids = nodes_[node].facts.gpu_ids,
                                       .master_address = master_of(node, spec.master_node()),
                                       .checkpoint_directory = pod.checkpoint,
                                       .mark = mark_of(pod),
                                       .port = pod.identity.port});
    const Result<int> control = nursery_.start_shim(shim);
    if (!control) return fail(pod, control.refusal().message);
    attach(pod, *control);
  }

  void signal(const std::string& node, const v1::SignalPod& order) {
    RunningPod* pod = find(node, name_of(order.key()));
    if (pod == nullptr || pod->over) return;
    const bool repeated = order.leave() && pod->leaving;
    pod->leaving = pod->leaving || order.leave();
    if (pod->control >= 0) {
      say(*pod, (order.leave() ? "leave " : "signal ") + std::to_string(order.signo()));
    } else if (!repeated && main_process_lives(pod->identity)) {
      ::kill(-pod->identity.pid, order.signo());
    }
  }

  void kill(const std::string& node, const PodName& name) {
    RunningPod* pod = find(node, name);
    if (pod == nullptr) {
      std::erase_if(nodes_[node].held_back,
                    [&](const v1::LaunchPod& held) { return name_of(held.key()) == name; });
      return tell(node, name, What::WHAT_ABSENT, nullptr);
    }
    if (pod->over) return tell_all(*pod);
    pod->killing = true;
    if (pod->control >= 0) say(*pod, "kill");
  }

  /// For the shims, and for a node that starts again. Not durable: after a power cut nothing runs
  /// that it could stop.
  void keep_contact(const std::string& node, std::int64_t mono_ms) {
    const std::string path = files_.contact_path(node);
    const std::string text = std::to_string(mono_ms) + " " + settings_.boot_id + "\n";
    if (write_file(path + ".new", text) && ::rename((path + ".new").c_str(), path.c_str()) == 0) {
      return;
    }
    if (make_directories(files_.node_directory(node)) && write_file(path, text)) return;
    spdlog::warn("contact not kept node={} why=\"{}\"", node, std::strerror(errno));
  }

  void tell_contact(const std::string& node) {
    const std::string text = read_file(files_.contact_path(node));
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.substr(space + 1) != settings_.boot_id + "\n") return;
    const std::int64_t mono_ms = std::atoll(text.c_str());
    if (contact_kept_ && mono_ms > 0) contact_kept_(node, mono_ms);
  }

  void probe(const std::string& node, const v1::ProbePods& order) {
    tell_contact(node);
    std::set<PodName> alive;
    for (const v1::PodKey& key : order.alive()) alive.insert(name_of(key));
    std::error_code none;
    for (const auto& entry :
         std::filesystem::directory_iterator(files_.node_directory(node), none)) {
      const auto name = parse_pod_file_name(entry.path().filename().string());
      if (!name) continue;
      RunningPod* known = find(node, *name);
      if (known == nullptr && never_ran(entry.path().string())) continue;
      RunningPod& pod = known != nullptr ? *known : adopt(node, *name, entry.path().string());
      if (alive.count(*name) == 0) abandon(pod);
    }
    for (const PodName& name : alive) {
      RunningPod* pod = find(node, name);
      if (pod == nullptr) {
        tell(node, name, What::WHAT_ABSENT, nullptr);
      } else {
        tell_all(*pod);
      }
    }
    release_held_back(node);
  }

  void forget(const std::string& node, const PodName& name) {
    RunningPod* pod = find(node, name);
    const std::string directory = files_.pod_directory(node, name);
    if (pod == nullptr) {
      const auto exit = read_exit(directory);
      if (exit && exit->what != Exit::What::Ended) remove_pod_directory(directory);
      return;
    }
    if (pod->over) drop(*pod);
  }

  // Pods.

  RunningPod* find(const std::string& node, const PodName& name) {
    const auto found = pods_.find({node, name});
    return found == pods_.end() ? nullptr : &found->second;
  }

  /// A pod of an earlier life of the agent, or one that is over and still has its files.
  RunningPod& adopt(const std::string& node, const PodName& name, const std::string& directory) {
    RunningPod& pod = pods_[{node, name}];
    pod.node = node;
    pod.name = name;
    pod.directory = directory;
    pod.checkpoint = files_.checkpoint_directory(name);
    const int control = connect_to_shim(directory);
    const auto identity = read_identity(directory);
    if (identity) pod.identity = *identity;
    if (identity && identity->boot_id != settings_.boot_id) {
      pod.over = pod.ended = true;  // no process outlives its kernel
      return pod;
    }
    struct stat status {};
    if (::stat((directory + "/identity").c_str(), &status) == 0) {
      pod.checkpoint_ns = ns_of(status.st_mtim);
    }
    if (control >= 0) {
      attach(pod, control);
    } else {
      lost_shim(pod);
    }
    return pod;
  }

  /// A directory without identity and without a shim that could still write one: no program of it
  /// was ever started.
  static bool never_ran(const std::string& directory) {
    if (read_identity(directory) || read_exit(directory)) return false;
    const int control = connect_to_shim(directory);
    if (control >= 0) {
      ::close(control);
      return false;
    }
    // It may have written and ended between the two looks.
    if (read_identity(directory) || read_exit(directory)) return false;
    remove_pod_directory(directory);
    return true;
  }

  void attach(RunningPod& pod, int control) {
    if (control < 0) return lost_shim(pod);
    pod.control = control;
    by_control_[control] = {pod.node, pod.name};
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = control;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, control, &event);
    if (pod.killing) say(pod, "kill");
  }

  /// No node believes in it: it must be gone before anything is launched beside it.
  void abandon(RunningPod& pod) {
    if (pod.over) return drop(pod);
    spdlog::warn("pod without orders, killed node={} claim={}", pod.node, words(pod.name));
    pod.orphan = pod.killing = true;
    nodes_[pod.node].orphans.insert(pod.name);
    if (pod.control >= 0) say(pod, "kill");
  }

  void drop(RunningPod& pod) {
    if (pod.control >= 0) detach(pod);
    if (!pod.identity.cgroup.empty()) ::rmdir(pod.identity.cgroup.c_str());
    remove_pod_directory(pod.directory);
    const Key key{pod.node, pod.name};
    leftovers_.erase(key);
    pods_.erase(key);
  }

  void detach(RunningPod& pod) {
    by_control_.erase(pod.control);
    ::close(pod.control);
    pod.control = -1;
  }

  void release_held_back(const std::string& node) {
    if (!nodes_[node].orphans.empty()) return;
    std::vector<v1::LaunchPod> held;
    held.swap(nodes_[node].held_back);
    for (const v1::LaunchPod& order : held) launch(node, order);
  }

  // What shims say.

  void hear(int control) {
    const auto known = by_control_.find(control);
    if (known == by_control_.end()) return;
    const Key key = known->second;
    char buffer[4096];
    const ssize_t n = ::recv(control, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) {
      RunningPod& pod = pods_.at(key);
      pod.heard.append(buffer, static_cast<std::size_t>(n));
      std::string lines;
      lines.swap(pod.heard);
      std::size_t at = 0;
      for (std::size_t end; (end = lines.find('\n', at)) != std::string::npos; at = end + 1) {
        if (RunningPod* still = find(key.first, key.second)) {
          heard_line(*still, lines.substr(at, end - at));
        }
      }
      if (RunningPod* still = find(key.first, key.second)) still->heard = lines.substr(at);
      return;
    }
    RunningPod& pod = pods_.at(key);
    detach(pod);
    if (!pod.over) lost_shim(pod);
  }

  void heard_line(RunningPod& pod, const std::string& line) {
    if (line.rfind("started ", 0) == 0) return started(pod);
    if (const auto exit = parse_exit(line)) heard_exit(pod, *exit);
  }

  void started(RunningPod& pod) {
    if (const auto identity = read_identity(pod.directory)) pod.identity = *identity;
    if (pod.started) return;
    pod.started = true;
    tell(pod, What::WHAT_STARTED);
  }

  void heard_exit(RunningPod& pod, const Exit& exit) {
    switch (exit.what) {
      case Exit::What::Ended:
        return ended(pod, exit.code);
      case Exit::What::Empty:
        ended(pod, exit.code);
        // Who was moved into the cgroup from elsewhere is no child of the shim.
        if (population_of(pod.identity.cgroup) == Population::Populated) {
          pod.killing = true;
          if (pod.control >= 0) detach(pod);
          leftovers_.insert({pod.node, pod.name});
          return;
        }
        return empty(pod);
      case Exit::What::Failed:
        pod.exit_code = exit.code;
        pod.error = exit.text;
        pod.failed = true;
        return over(pod, What::WHAT_FAILED);
    }
  }

  void ended(RunningPod& pod, int code) {
    if (pod.ended) return;
    pod.ended = true;
    pod.exit_code = code;
    check_checkpoint(pod);
    tell(pod, What::WHAT_ENDED);
  }

  void empty(RunningPod& pod) { over(pod, What::WHAT_EMPTY); }

  void over(RunningPod& pod, What::What what) {
    if (pod.over) return;
    pod.over = true;
    leftovers_.erase({pod.node, pod.name});
    tell(pod, what);
    if (!pod.orphan) return;
    const std::string node = pod.node;
    nodes_[node].orphans.erase(pod.name);
    drop(pod);
    release_held_back(node);
  }

  void fail(RunningPod& pod, const std::string& error) {
    heard_exit(pod, {Exit::What::Failed, kNotStarted, error});
  }

  /// The shim has ended: in good order, or it was killed.
  void lost_shim(RunningPod& pod) {
    if (const auto exit = read_exit(pod.directory)) {
      if (exit->what != Exit::What::Failed && !pod.started && read_identity(pod.directory)) {
        started(pod);
      }
      heard_exit(pod, *exit);
      if (pod.over) return;
    }
    if (!read_identity(pod.directory)) {
      return fail(pod, "the shim ended before the pod was started");
    }
    if (!pod.started) started(pod);
    spdlog::warn("shim lost node={} claim={} pid={}", pod.node, words(pod.name), pod.identity.pid);
    leftovers_.insert({pod.node, pod.name});
  }

  void watch_leftovers() {
    const std::set<Key> leftovers = leftovers_;
    for (const Key& key : leftovers) {
      RunningPod& pod = pods_.at(key);
      if (!main_process_lives(pod.identity)) {
        ended(pod, kUnknownCode);
        if (!pod.leaving) pod.killing = true;
      }
      if (pod.killing) kill_leftovers(pod.identity, mark_of(pod));
      if (leftovers_of(pod.identity, mark_of(pod)).empty()) {
        ended(pod, kUnknownCode);
        empty(pod);
      }
    }
  }

  void watch_checkpoints() {
    if (mono_ms() < checkpoints_at_ms_) return;
    checkpoints_at_ms_ = mono_ms() + kCheckpointEveryMs;
    for (auto& [key, pod] : pods_) {
      if (pod.started && !pod.ended) check_checkpoint(pod);
    }
  }

  void check_checkpoint(RunningPod& pod) {
    const std::int64_t newest = checkpoint_time(pod.checkpoint);
    if (newest <= pod.checkpoint_ns) return;
    pod.checkpoint_ns = newest;
    tell(pod, What::WHAT_CHECKPOINT);
  }

  // Saying.

  static void say(const RunningPod& pod, const std::string& line) {
    const std::string text = line + "\n";
    // A shim that is gone is noticed when its socket ends.
    if (::send(pod.control, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      spdlog::debug("shim does not listen claim={}", words(pod.name));
    }
  }

  void tell(const RunningPod& pod, What::What what) {
    if (!pod.orphan) tell(pod.node, pod.name, what, &pod);
  }
  /// All that is known, in the order in which it happened.
  void tell_all(const RunningPod& pod) {
    if (pod.failed) return tell(pod, What::WHAT_FAILED);
    if (pod.started) tell(pod, What::WHAT_STARTED);
    if (pod.ended) tell(pod, What::WHAT_ENDED);
    if (pod.over) tell(pod, What::WHAT_EMPTY);
  }
  void tell(const std::string& node, const PodName& name, What::What what, const RunningPod* pod) {
    What report;
    report.set_workload(name.workload);
    report.set_index(name.index);
    report.set_attempt(name.attempt);
    report.set_pod(name.pod);
    report.set_what(what);
    report.set_exit_code(kUnknownCode);
    if (pod != nullptr) {
      report.set_pid(pod->identity.pid);
      report.set_process_start(pod->identity.start);
      report.set_exit_code(pod->exit_code);
      report.set_error(pod->error);
      report.set_log_path(pod->identity.log_path);
      report.set_port(pod->identity.port);
    }
    reported_(node, report);
  }

  // Facts.

  std::string mark_of(const RunningPod& pod) const {
    return encode_file_name(pod.node) + "." + pod_file_name(pod.name) + "." +
           encode_file_name(settings_.data);
  }
  std::string master_of(const std::string& node, const std::string& master) const {
    const auto known = nodes_.find(master.empty() ? node : master);
    // A node of another agent goes by its name.
    return known != nodes_.end() && !known->second.facts.host.empty() ? known->second.facts.host
                                                                      : master;
  }
  unsigned port_for(const v1::LaunchPod& order) {
    if (order.spec().port() != 0) return order.spec().port();
    const bool listens =
        order.product() == v1::PRODUCT_SERVICE || order.product() == v1::PRODUCT_INSTANCE;
    if (listens) last_port_ = choose_port(last_port_);
    return listens ? last_port_ : 0;
  }

  const LauncherSettings settings_;
  const Reported reported_;
  const ContactKept contact_kept_;
  const PodFiles files_;
  Cgroups cgroups_;
  std::map<std::string, Node> nodes_;
  std::map<Key, RunningPod> pods_;
  std::map<int, Key> by_control_;
  std::set<Key> leftovers_;
  ShimNursery nursery_;
  std::int64_t checkpoints_at_ms_ = 0;
  unsigned last_port_ = 0;
  const int epoll_, wake_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, v1::LauncherInbox>> orders_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

Launcher::Launcher(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
Launcher::~Launcher() = default;

Result<std::unique_ptr<Launcher>> Launcher::open(LauncherSettings settings, Reported reported,
                                                 ContactKept contact_kept) {
  std::error_code error;
  settings.data = std::filesystem::absolute(settings.data, error).lexically_normal().string();
  if (!make_directories(settings.data)) {
    return Refusal{"InvalidParameter",
                   "data directory " + settings.data + ": " + std::strerror(errno), 400};
  }
  if (::access(settings.shim_program.c_str(), X_OK) != 0) {
    return Refusal{"InvalidParameter",
                   "shim program " + settings.shim_program + ": " + std::strerror(errno), 400};
  }
  return std::unique_ptr<Launcher>(new Launcher(
      std::make_unique<Inside>(std::move(settings), std::move(reported), std::move(contact_kept))));
}

void Launcher::order(const std::string& node, v1::LauncherInbox order) {
  inside_->order(node, std::move(order));
}
bool Launcher::uses_cgroups() const { return inside_->uses_cgroups(); }

}  // namespace ebb::agent
