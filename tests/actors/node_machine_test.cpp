#include "actors/node/node_machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <map>

using namespace ebb;          // NOLINT: a test
using namespace ebb::actors;  // NOLINT

namespace {

constexpr const char* kNode = "node/n1";

v1::NodeFacts facts_of(int gpus, const std::string& boot = "boot-1") {
  v1::NodeFacts facts;
  facts.set_node("n1");
  facts.set_node_type("a100x8");
  facts.set_boot_id(boot);
  facts.set_host("127.0.0.1");
  facts.mutable_total()->set_gpu_milli(gpus * 1000);
  facts.mutable_total()->set_cpu_milli(64'000);
  facts.mutable_total()->set_memory_bytes(1'000'000);
  return facts;
}

v1::PodOrder order_of(std::uint32_t pod, v1::PodWant want, std::vector<std::uint32_t> gpus,
                      std::int64_t grace_ms = 10'000) {
  v1::PodOrder order;
  order.set_pod(pod);
  order.set_want(want);
  for (const std::uint32_t gpu : gpus) {
    v1::GpuShare* share = order.add_gpus();
    share->set_gpu(gpu);
    share->set_gpu_milli(1000);
  }
  order.mutable_amount()->set_gpu_milli(static_cast<std::int64_t>(gpus.size()) * 1000);
  order.mutable_amount()->set_cpu_milli(1'000);
  order.set_grace_period_ms(grace_ms);
  order.mutable_launch()->add_command("/bin/true");
  return order;
}

/// A workload as the node sees it: one claim's conversation.
struct Workload {
  explicit Workload(std::string name, std::uint64_t epoch = 1)
      : address(std::move(name)), conversation(epoch) {}
  std::string address;
  Conversation conversation;
  v1::PodReports heard;

  v1::Envelope orders(std::uint32_t attempt, std::vector<v1::PodOrder> pods) {
    conversation.touch();
    return repeat(attempt, std::move(pods));
  }
  v1::Envelope repeat(std::uint32_t attempt, std::vector<v1::PodOrder> pods) {
    v1::Envelope envelope;
    envelope.set_from(address);
    envelope.set_to(kNode);
    v1::PodOrders* out = envelope.mutable_node()->mutable_pod_orders();
    conversation.stamp(out->mutable_header(), 0);
    out->mutable_claim()->set_workload(address);
    out->set_attempt(attempt);
    out->set_claim_class(v1::CLAIM_CLASS_IN_QUOTA);
    for (v1::PodOrder& pod : pods) *out->add_pods() = std::move(pod);
    return envelope;
  }
  void hear(const v1::PodReports& reports) {
    if (conversation.receive(reports.header())) heard = reports;
  }
  const v1::PodReport& pod(std::uint32_t rank) const {
    for (const v1::PodReport& report : heard.pods()) {
      if (report.pod() == rank) return report;
    }
    FAIL("no report of pod " << rank);
    return heard.pods(0);
  }
};

/// The node with its store; what it sends is kept by receiver.
class Bench {
 public:
  explicit Bench(v1::NodeFacts facts = facts_of(4)) { boot(std::move(facts)); }

  /// The agent starts (again): a new owner epoch, rebuilt from what was saved.
  void boot(v1::NodeFacts facts) {
    v1::Record& own = store[kNode];
    own.set_key(kNode);
    own.set_kind("NodeFacts");
    facts.SerializeToString(own.mutable_body());
    std::vector<v1::Record> records;
    for (const auto& [key, record] : store) records.push_back(record);
    machine = std::make_unique<NodeMachine>(Context{kNode, ++epoch}, records);
    run([&](Effects& effects) { machine->start(now, effects); });
  }
  void give(const v1::Envelope& envelope) {
    run([&](Effects& effects) {
      machine->handle(envelope, now, effects);
      machine->settle(now, effects);
    });
  }
  /// Moves the clock; wakes the machine whenever it asked for it.
  void pass(std::int64_t ms) {
    const std::int64_t end = now.mono_ms + ms;
    for (int i = 0; i < 10'000 && wake_at <= end; ++i) {
      move_to(std::max(wake_at, now.mono_ms));
      run([&](Effects& effects) { machine->wake(now, effects); });
    }
    move_to(end);
  }
  void report(const std::string& workload, std::uint32_t attempt, std::uint32_t pod,
              v1::ProcessReport::What what, int exit_code = 0) {
    v1::Envelope envelope;
    envelope.set_from("launcher/n1");
    v1::ProcessReport* out = envelope.mutable_node()->mutable_process_report();
    out->set_workload(workload);
    out->set_attempt(attempt);
    out->set_pod(pod);
    out->set_what(what);
    out->set_pid(4711);
    out->set_process_start(99);
    out->set_exit_code(exit_code);
    give(envelope);
  }
  void bind_to_pool(const std::string& pool, std::uint64_t version = 1) {
    v1::Envelope envelope;
    envelope.set_from("tenant");
    v1::NodeBinding* binding = envelope.mutable_node()->mutable_node_binding();
    binding->mutable_header()->mutable_stamp()->set_epoch(1);
    binding->mutable_header()->mutable_stamp()->set_version(version);
    *binding->mutable_header()->mutable_seen() =
        last("tenant").tenant().node_state().header().stamp();
    binding->set_pool(pool);
    give(envelope);
  }
  std::vector<v1::Envelope> take(const std::string& to) {
    std::vector<v1::Envelope> out = std::move(sent[to]);
    sent[to].clear();
    return out;
  }
  v1::Envelope last(const std::string& to) {
    REQUIRE_FALSE(sent[to].empty());
    return sent[to].back();
  }
  void tell(Workload& workload) {
    for (const v1::Envelope& envelope : take(workload.address)) {
      workload.hear(envelope.workload().pod_reports());
    }
  }
  /// Orders there, reports back and echoed.
  void talk(Workload& workload, std::uint32_t attempt, std::vector<v1::PodOrder> pods) {
    give(workload.orders(attempt, pods));
    tell(workload);
    give(workload.repeat(attempt, pods));
    tell(workload);
  }
  std::vector<v1::LauncherInbox::MessageCase> launcher_orders() {
    std::vector<v1::LauncherInbox::MessageCase> out;
    for (const v1::Envelope& envelope : take("launcher/n1")) {
      out.push_back(envelope.launcher().message_case());
    }
    return out;
  }
  v1::NodePodRecord saved(const std::string& claim) {
    v1::NodePodRecord record;
    record.ParseFromString(store[std::string(kNode) + "#" + claim].body());
    return record;
  }

  std::map<std::string, v1::Record> store;
  std::map<std::string, std::vector<v1::Envelope>> sent;
  std::vector<std::string> alarms;
  std::unique_ptr<NodeMachine> machine;
  Instant now{1'000, 5'000'000};
  std::int64_t wake_at = kNever;
  std::uint64_t epoch = 0;

 private:
  void move_to(std::int64_t mono_ms) {
    now.wall_ms += mono_ms - now.mono_ms;
    now.mono_ms = mono_ms;
  }
  template <class Call>
  void run(Call&& call) {
    Effects effects;
    call(effects);
    for (const v1::Record& record : effects.saves) {
      if (record.erased()) {
        store.erase(record.key());
      } else {
        store[record.key()] = record;
      }
    }
    for (v1::Envelope& envelope : effects.sends) sent[envelope.to()].push_back(envelope);
    alarms.insert(alarms.end(), effects.alarms.begin(), effects.alarms.end());
    if (effects.wake_at_mono_ms) wake_at = *effects.wake_at_mono_ms;
  }
};

using Launcher = v1::LauncherInbox;
using What = v1::ProcessReport;

}  // namespace

TEST_CASE("node machine: a pod is bound, started, and its process reported to its workload") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_BOUND, {0, 1})});
  CHECK(job.pod(0).state() == v1::POD_STATE_BOUND);
  node.take("launcher/n1");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0, 1})});
  CHECK(job.pod(0).state() == v1::POD_STATE_STARTING);
  const v1::Envelope launch = node.last("launcher/n1");
  CHECK(launch.launcher().launch().key().workload() == "job/a");
  CHECK(launch.launcher().launch().gpus_size() == 2);
  CHECK(launch.launcher().launch().spec().command(0) == "/bin/true");
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.tell(job);
  CHECK(job.pod(0).state() == v1::POD_STATE_RUNNING);
  CHECK(job.pod(0).pid() == 4711);
  CHECK(job.pod(0).process_start() == 99);
  CHECK(job.pod(0).started_wall_ms() == node.now.wall_ms);
}

TEST_CASE("node machine: RUN is carried out once, however often it is ordered") {
  Bench node;
  Workload job("job/a");
  node.take("launcher/n1");
  const auto run = order_of(0, v1::POD_WANT_RUN, {0});
  node.talk(job, 1, {run});
  node.talk(job, 1, {run});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.talk(job, 1, {run});
  CHECK(node.launcher_orders() == std::vector{Launcher::kLaunch});
}

TEST_CASE("node machine: R6, what it tells is saved in the same step") {
  Bench node;
  Workload job("job/a");
  node.give(job.orders(1, {order_of(0, v1::POD_WANT_BOUND, {0})}));
  CHECK(node.saved("job/a/0").pods(0).report().state() == v1::POD_STATE_BOUND);
  node.give(job.orders(1, {order_of(0, v1::POD_WANT_RUN, {0})}));
  CHECK(node.saved("job/a/0").pods(0).report().state() == v1::POD_STATE_STARTING);
  CHECK(node.saved("job/a/0").pods(0).order().launch().command(0) == "/bin/true");
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  CHECK(node.saved("job/a/0").pods(0).report().state() == v1::POD_STATE_RUNNING);
  CHECK(node.saved("job/a/0").pods(0).report().pid() == 4711);
  node.give(job.orders(1, {order_of(0, v1::POD_WANT_GONE, {0})}));
  CHECK(node.saved("job/a/0").pods(0).report().state() == v1::POD_STATE_LEAVING);
  node.report("job/a", 1, 0, What::WHAT_EMPTY, 143);
  CHECK(node.saved("job/a/0").pods(0).report().state() == v1::POD_STATE_GONE);
}

TEST_CASE("node machine: a bind that cannot be is refused with the reason") {
  struct Row {
    const char* name;
    v1::PodOrder order;
    const char* reason;
  };
  v1::PodOrder half = order_of(0, v1::POD_WANT_BOUND, {1});
  half.mutable_gpus(0)->set_gpu_milli(501);
  v1::PodOrder none = order_of(0, v1::POD_WANT_BOUND, {1});
  none.mutable_gpus(0)->set_gpu_milli(0);
  v1::PodOrder cpu = order_of(0, v1::POD_WANT_BOUND, {1});
  cpu.mutable_amount()->set_cpu_milli(64'000);
  v1::PodOrder memory = order_of(0, v1::POD_WANT_BOUND, {1});
  memory.mutable_amount()->set_memory_bytes(1'000'001);
  const Row rows[] = {
      {"taken", order_of(0, v1::POD_WANT_BOUND, {0}),
       "gpu 0 is taken: 500 of 1000 in use, 1000 wanted"},
      {"too much of a shared one",
       [&] {
         v1::PodOrder order = half;
         order.mutable_gpus(0)->set_gpu(0);
         return order;
       }(),
       "gpu 0 is taken: 500 of 1000 in use, 501 wanted"},
      {"faulty", order_of(0, v1::POD_WANT_RUN, {3}), "gpu 3 is faulty"},
      {"not there", order_of(0, v1::POD_WANT_BOUND, {4}), "gpu 4 is not there: the node has 4"},
      {"named twice", order_of(0, v1::POD_WANT_BOUND, {1, 1}), "gpu 1 is named twice"},
      {"nothing of a GPU", none, "gpu 1: gpu_milli is 0, allowed 1 to 1000"},
      {"cpu", cpu, "1 CPU of 64 in use, 64 CPU wanted"},
      {"memory", memory, "0 bytes of memory of 1000000 in use, 1000001 bytes wanted"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    v1::NodeFacts facts = facts_of(4);
    facts.add_faulty_gpus(3);
    Bench node(facts);
    Workload holder("service/s"), job("job/a");
    v1::PodOrder shared = order_of(0, v1::POD_WANT_BOUND, {0});
    shared.mutable_gpus(0)->set_gpu_milli(500);
    node.talk(holder, 1, {shared});
    node.talk(job, 1, {row.order});
    CHECK(job.pod(0).state() == v1::POD_STATE_REFUSED);
    CHECK(job.pod(0).refusal() == row.reason);
    CHECK(holder.pod(0).state() == v1::POD_STATE_BOUND);
  }
}

TEST_CASE("node machine: shares of one GPU add up to the whole card and no further") {
  Bench node;
  Workload a("job/a"), b("job/b");
  v1::PodOrder half = order_of(0, v1::POD_WANT_BOUND, {2});
  half.mutable_gpus(0)->set_gpu_milli(500);
  node.talk(a, 1, {half});
  node.talk(b, 1, {half});
  CHECK(b.pod(0).state() == v1::POD_STATE_BOUND);
  Workload c("job/c");
  half.mutable_gpus(0)->set_gpu_milli(1);
  node.talk(c, 1, {half});
  CHECK(c.pod(0).state() == v1::POD_STATE_REFUSED);
}

TEST_CASE("node machine: a refused pod stays refused in its attempt, and may come in the next") {
  Bench node;
  Workload holder("job/h"), job("job/a");
  node.talk(holder, 1, {order_of(0, v1::POD_WANT_BOUND, {0})});
  node.talk(job, 1, {order_of(0, v1::POD_WANT_BOUND, {0})});
  node.talk(holder, 1, {order_of(0, v1::POD_WANT_GONE, {0})});
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  CHECK(job.pod(0).state() == v1::POD_STATE_REFUSED);
  node.talk(job, 2, {order_of(0, v1::POD_WANT_BOUND, {0})});
  CHECK(job.pod(0).state() == v1::POD_STATE_BOUND);
}

TEST_CASE(
    "node machine: R7, a bind that comes after its release is refused, also after a restart") {
  for (const bool restart : {false, true}) {
    CAPTURE(restart);
    Bench node;
    Workload job("job/a");
    node.talk(job, 1, {order_of(0, v1::POD_WANT_BOUND, {0})});
    node.talk(job, 1, {order_of(0, v1::POD_WANT_GONE, {0})});
    CHECK(job.pod(0).state() == v1::POD_STATE_GONE);
    CHECK(job.pod(0).never_started());
    CHECK(node.saved("job/a/0").released());
    CHECK(node.saved("job/a/0").pods_size() == 0);
    if (restart) node.boot(facts_of(4));
    node.take("launcher/n1");
    node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
    CHECK(job.pod(0).state() == v1::POD_STATE_REFUSED);
    CHECK(job.pod(0).refusal() == "attempt 1 of job/a/0 was released on this node");
    CHECK(node.launcher_orders().empty());
  }
}

TEST_CASE(
    "node machine: R7, reordered: the release comes first, the bind of the same attempt late") {
  Bench node;
  Workload job("job/a");
  const v1::Envelope bind = job.orders(1, {order_of(0, v1::POD_WANT_RUN, {0})});
  const v1::Envelope release = job.orders(1, {order_of(0, v1::POD_WANT_GONE, {0})});
  node.take("launcher/n1");
  node.give(release);
  node.give(bind);
  node.tell(job);
  CHECK(job.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(job.pod(0).never_started());
  CHECK(node.launcher_orders().empty());
}

TEST_CASE("node machine: orders of a lower attempt are ignored, even with a newer stamp") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 2, {order_of(0, v1::POD_WANT_BOUND, {0})});
  node.talk(job, 1, {order_of(0, v1::POD_WANT_GONE, {0})});
  CHECK(node.saved("job/a/0").attempt() == 2);
  CHECK(node.saved("job/a/0").pods(0).report().state() == v1::POD_STATE_BOUND);
}

TEST_CASE("node machine: R10, orders of an older epoch are ignored, also after a restart") {
  for (const bool restart : {false, true}) {
    CAPTURE(restart);
    Bench node;
    Workload deposed("job/a", 1), owner("job/a", 2);
    const v1::Envelope late = deposed.orders(3, {order_of(0, v1::POD_WANT_RUN, {0})});
    node.talk(owner, 1, {order_of(0, v1::POD_WANT_BOUND, {1})});
    if (restart) node.boot(facts_of(4));
    node.take("launcher/n1");
    node.give(late);
    CHECK(node.saved("job/a/0").attempt() == 1);
    CHECK(node.saved("job/a/0").pods(0).report().state() == v1::POD_STATE_BOUND);
    CHECK(node.launcher_orders().empty());
  }
}

TEST_CASE("node machine: R8, a slot is free when the group is empty, not when it was killed") {
  Bench node;
  Workload job("job/a"), next("job/b");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.talk(job, 1, {order_of(0, v1::POD_WANT_GONE, {0}, 1'000)});
  CHECK(job.pod(0).state() == v1::POD_STATE_LEAVING);
  node.pass(1'000);  // killed
  node.report("job/a", 1, 0, What::WHAT_ENDED, 137);
  node.tell(job);
  CHECK(job.pod(0).state() == v1::POD_STATE_LEAVING);
  node.talk(next, 1, {order_of(0, v1::POD_WANT_BOUND, {0})});
  CHECK(next.pod(0).state() == v1::POD_STATE_REFUSED);
  node.report("job/a", 1, 0, What::WHAT_EMPTY, 137);
  node.tell(job);
  CHECK(job.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(job.pod(0).exit_code() == 137);
  CHECK(job.pod(0).evicted());
  CHECK_FALSE(job.pod(0).never_started());
  node.talk(next, 2, {order_of(0, v1::POD_WANT_BOUND, {0})});
  CHECK(next.pod(0).state() == v1::POD_STATE_BOUND);
}

TEST_CASE("node machine: GONE signals, waits for the grace, then kills until the group is empty") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.take("launcher/n1");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_GONE, {0}, 5'000)});
  const v1::Envelope signal = node.last("launcher/n1");
  CHECK(signal.launcher().signal().signo() == SIGTERM);
  CHECK(signal.launcher().signal().leave());
  node.take("launcher/n1");
  node.pass(4'999);
  CHECK(node.launcher_orders().empty());
  node.pass(1);
  CHECK(node.launcher_orders() == std::vector{Launcher::kKill});
  node.pass(2'000);
  CHECK(node.launcher_orders() == std::vector{Launcher::kKill});
}

TEST_CASE("node machine: a second GONE can shorten the grace, never lengthen it") {
  struct Row {
    const char* name;
    std::int64_t second_grace_ms, killed_after_ms;
  };
  const Row rows[] = {{"shorter", 1'000, 2'000}, {"longer", 60'000, 5'000}, {"none", 0, 1'000}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Bench node;
    Workload job("job/a");
    node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
    node.report("job/a", 1, 0, What::WHAT_STARTED);
    node.talk(job, 1, {order_of(0, v1::POD_WANT_GONE, {0}, 5'000)});
    node.pass(1'000);
    node.take("launcher/n1");
    node.talk(job, 1, {order_of(0, v1::POD_WANT_GONE, {0}, row.second_grace_ms)});
    if (row.killed_after_ms > 1'000) {
      node.pass(row.killed_after_ms - 1'001);
      CHECK(node.launcher_orders().empty());
      node.pass(1);
    }
    CHECK(node.launcher_orders() == std::vector{Launcher::kKill});
  }
}

TEST_CASE(
    "node machine: what a pod that ended by itself leaves behind is killed before the receipt") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.take("launcher/n1");
  node.report("job/a", 1, 0, What::WHAT_ENDED, 3);
  CHECK(node.launcher_orders() == std::vector{Launcher::kKill});
  node.tell(job);
  CHECK(job.pod(0).state() == v1::POD_STATE_LEAVING);
  node.report("job/a", 1, 0, What::WHAT_EMPTY, 3);
  node.tell(job);
  CHECK(job.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(job.pod(0).exit_code() == 3);
  CHECK_FALSE(job.pod(0).evicted());
  CHECK(node.launcher_orders() == std::vector{Launcher::kForget});
}

TEST_CASE("node machine: the receipt is repeated until the workload has echoed it") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.report("job/a", 1, 0, What::WHAT_EMPTY, 0);
  node.take("job/a");
  node.pass(10'000);
  const auto repeats = node.take("job/a");
  CHECK(repeats.size() >= 5);
  for (const v1::Envelope& repeat : repeats) {
    CHECK(repeat.workload().pod_reports().pods(0).state() == v1::POD_STATE_GONE);
  }
  job.hear(repeats.back().workload().pod_reports());
  node.give(job.repeat(1, {order_of(0, v1::POD_WANT_RUN, {0})}));
  node.take("job/a");
  node.pass(10'000);
  CHECK(node.take("job/a").empty());
}

TEST_CASE("node machine: a launch that failed frees the slot and says why") {
  Bench node;
  Workload job("job/a"), empty("job/b");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  v1::Envelope failed;
  v1::ProcessReport* report = failed.mutable_node()->mutable_process_report();
  report->set_workload("job/a");
  report->set_attempt(1);
  report->set_what(What::WHAT_FAILED);
  report->set_exit_code(127);
  report->set_error("/no/such: no such file");
  node.give(failed);
  node.tell(job);
  CHECK(job.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(job.pod(0).never_started());
  CHECK(job.pod(0).exit_code() == 127);
  CHECK(job.pod(0).error() == "/no/such: no such file");
  v1::PodOrder nothing = order_of(0, v1::POD_WANT_RUN, {0});
  nothing.mutable_launch()->clear_command();
  node.talk(empty, 1, {nothing});
  CHECK(empty.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(empty.pod(0).error() == "launch.command is empty: it names the program to start");
}

TEST_CASE("node machine: a user's signal is delivered once per serial") {
  Bench node;
  Workload job("job/a");
  v1::PodOrder run = order_of(0, v1::POD_WANT_RUN, {0});
  node.talk(job, 1, {run});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.take("launcher/n1");
  run.set_signal(SIGUSR1);
  run.set_signal_serial(1);
  node.talk(job, 1, {run});
  node.talk(job, 1, {run});
  const auto sent = node.take("launcher/n1");
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].launcher().signal().signo() == SIGUSR1);
  CHECK_FALSE(sent[0].launcher().signal().leave());
  node.boot(facts_of(4));
  node.take("launcher/n1");
  node.talk(job, 1, {run});
  CHECK(node.launcher_orders().empty());
  run.set_signal_serial(2);
  node.talk(job, 1, {run});
  CHECK(node.launcher_orders() == std::vector{Launcher::kSignal});
}

TEST_CASE("node machine: a pod that the orders list no more has to go") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_BOUND, {0}), order_of(1, v1::POD_WANT_BOUND, {1})});
  node.talk(job, 1, {order_of(0, v1::POD_WANT_BOUND, {0})});
  CHECK(job.pod(0).state() == v1::POD_STATE_BOUND);
  CHECK(job.pod(1).state() == v1::POD_STATE_GONE);
}

TEST_CASE("node machine: the next attempt is refused while the former is still on its way out") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.talk(job, 2, {order_of(0, v1::POD_WANT_BOUND, {1})});
  CHECK(job.heard.attempt() == 2);
  CHECK(job.pod(0).state() == v1::POD_STATE_REFUSED);
  CHECK(job.pod(0).refusal() == "attempt 1 of job/a/0 is still on its way out here");
  node.report("job/a", 1, 0, What::WHAT_EMPTY, 143);
  node.talk(job, 3, {order_of(0, v1::POD_WANT_BOUND, {1})});
  CHECK(job.pod(0).state() == v1::POD_STATE_BOUND);
}

TEST_CASE("node machine: orders that cannot be read are an alarm and change nothing") {
  Bench node;
  Workload job("job/a");
  v1::Envelope foreign = job.orders(1, {order_of(0, v1::POD_WANT_RUN, {0})});
  foreign.set_from("job/other");
  node.give(foreign);
  node.give(
      job.orders(1, {order_of(0, v1::POD_WANT_BOUND, {0}), order_of(0, v1::POD_WANT_BOUND, {1})}));
  node.give(job.orders(1, {order_of(0, v1::POD_WANT_UNSPECIFIED, {0})}));
  CHECK(node.alarms == std::vector<std::string>{
                           "pod orders refused reason=\"claim.workload is job/a, the sender is "
                           "job/other\"",
                           "pod orders refused reason=\"pod 0 is listed twice\"",
                           "pod orders refused reason=\"pod 0: want is 0, known are BOUND, RUN, "
                           "GONE\""});
  CHECK(node.store.count("node/n1#job/a/0") == 0);
}

TEST_CASE("node machine: it greets the tenant until bound, then reports to its pool") {
  Bench node;
  CHECK(node.take("tenant").size() == 1);
  node.pass(1'000);
  CHECK(node.take("tenant").size() >= 2);
  node.pass(1'000);
  node.bind_to_pool("pool/q1");
  const auto states = node.take("pool/q1");
  REQUIRE(states.size() == 1);
  CHECK(states[0].pool().node_state().facts().node_type() == "a100x8");
  node.take("tenant");
  node.pass(20'000);
  CHECK(node.take("tenant").empty());
}

TEST_CASE("node machine: its pool hears at least every 2 s, and the whole table on change") {
  Bench node;
  node.bind_to_pool("pool/q1");
  v1::Envelope terms;
  terms.set_from("pool/q1");
  v1::Header* header = terms.mutable_node()->mutable_node_terms()->mutable_header();
  header->mutable_stamp()->set_epoch(1);
  header->mutable_stamp()->set_version(1);
  *header->mutable_seen() = node.last("pool/q1").pool().node_state().header().stamp();
  node.give(terms);
  node.take("pool/q1");
  node.pass(20'000);
  const auto beats = node.take("pool/q1");
  CHECK(beats.size() == 10);
  CHECK_FALSE(beats.back().pool().node_state().header().wants_echo());
  Workload a("job/a"), b("job/b");
  node.talk(a, 1, {order_of(0, v1::POD_WANT_BOUND, {0})});
  node.talk(b, 4, {order_of(2, v1::POD_WANT_BOUND, {1, 2})});
  const v1::NodeState state = node.last("pool/q1").pool().node_state();
  CHECK(state.header().wants_echo());
  REQUIRE(state.pods_size() == 2);
  CHECK(state.pods(1).claim().workload() == "job/b");
  CHECK(state.pods(1).attempt() == 4);
  CHECK(state.pods(1).pod() == 2);
  CHECK(state.pods(1).gpus_size() == 2);
  CHECK(state.pods(1).state() == v1::POD_STATE_BOUND);
  node.talk(a, 1, {order_of(0, v1::POD_WANT_GONE, {0})});
  CHECK(node.last("pool/q1").pool().node_state().pods_size() == 1);
}

TEST_CASE("node machine: a faulty GPU is told to pool and tenant and bound no more") {
  Bench node;
  node.bind_to_pool("pool/q1");
  node.sent.clear();
  v1::Envelope health;
  health.mutable_node()->mutable_gpu_health()->add_faulty_gpus(2);
  node.give(health);
  CHECK(node.last("pool/q1").pool().node_state().facts().faulty_gpus(0) == 2);
  CHECK(node.last("tenant").tenant().node_state().facts().faulty_gpus(0) == 2);
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_BOUND, {2})});
  CHECK(job.pod(0).refusal() == "gpu 2 is faulty");
}

TEST_CASE("node machine: after a restart it probes for the pods it believes alive") {
  Bench node;
  Workload a("job/a"), b("job/b"), c("job/c"), d("job/d");
  node.talk(a, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.talk(b, 1, {order_of(0, v1::POD_WANT_RUN, {1})});  // launch order lost with the process
  node.talk(c, 1, {order_of(0, v1::POD_WANT_BOUND, {2})});
  node.talk(d, 1, {order_of(0, v1::POD_WANT_RUN, {3})});
  node.report("job/d", 1, 0, What::WHAT_STARTED);
  node.take("launcher/n1");
  node.boot(facts_of(4));
  const auto orders = node.take("launcher/n1");
  REQUIRE(orders.size() == 1);
  const v1::ProbePods& probe = orders[0].launcher().probe();
  REQUIRE(probe.alive_size() == 3);
  CHECK(probe.alive(0).workload() == "job/a");
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.report("job/b", 1, 0, What::WHAT_ABSENT);
  CHECK(node.launcher_orders() == std::vector{Launcher::kLaunch});
  node.report("job/d", 1, 0, What::WHAT_ENDED, 7);
  node.report("job/d", 1, 0, What::WHAT_EMPTY, 7);
  for (Workload* workload : {&a, &b, &c, &d}) node.tell(*workload);
  CHECK(a.pod(0).state() == v1::POD_STATE_RUNNING);
  CHECK(b.pod(0).state() == v1::POD_STATE_STARTING);
  CHECK(c.pod(0).state() == v1::POD_STATE_BOUND);
  CHECK(d.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(d.pod(0).exit_code() == 7);
}

TEST_CASE("node machine: a grace that was running goes on after a restart with what was left") {
  Bench node;
  Workload job("job/a");
  node.talk(job, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.talk(job, 1, {order_of(0, v1::POD_WANT_GONE, {0}, 5'000)});
  node.pass(2'000);
  node.boot(facts_of(4));
  CHECK(node.launcher_orders().back() == Launcher::kSignal);
  node.pass(2'999);
  CHECK(node.launcher_orders().empty());
  node.pass(1);
  CHECK(node.launcher_orders() == std::vector{Launcher::kKill});
}

TEST_CASE("node machine: after a reboot of the machine nothing runs, and it says so") {
  Bench node;
  Workload a("job/a"), b("job/b");
  node.talk(a, 1, {order_of(0, v1::POD_WANT_RUN, {0})});
  node.report("job/a", 1, 0, What::WHAT_STARTED);
  node.talk(b, 1, {order_of(0, v1::POD_WANT_BOUND, {1})});
  node.take("launcher/n1");
  node.boot(facts_of(4, "boot-2"));
  const auto orders = node.take("launcher/n1");
  CHECK(orders[0].launcher().probe().alive_size() == 0);
  node.tell(a);
  node.tell(b);
  CHECK(a.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(a.pod(0).exit_code() == -1);
  CHECK(a.pod(0).error() == "node rebooted");
  CHECK_FALSE(a.pod(0).never_started());
  CHECK(b.pod(0).state() == v1::POD_STATE_GONE);
  CHECK(b.pod(0).never_started());
  Workload next("job/c");
  node.talk(next, 1, {order_of(0, v1::POD_WANT_BOUND, {0, 1})});
  CHECK(next.pod(0).state() == v1::POD_STATE_BOUND);
}
