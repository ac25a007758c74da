#include "tests/actors/house_bench.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ebb::test {

using actors::Effects;
using actors::Machine;

namespace {
std::string text_of(const v1::PodKey& key) {
  return key.workload() + "/" + std::to_string(key.index()) + "." + std::to_string(key.attempt()) +
         "." + std::to_string(key.pod());
}
/// Rounds without time passing after which a machine is taken to spin.
constexpr int kRoundsMax = 1'000;
bool is_node(const std::string& address) { return address.starts_with("node/"); }
}  // namespace

House::House(int nodes) {
  v1::Record tenant;
  tenant.set_key("tenant");
  tenant.set_kind("TenantRecord");
  store_["tenant"] = tenant;
  start("tenant");
  for (int i = 1; i <= nodes; ++i) {
    const std::string name = "n" + std::to_string(100 + i);
    v1::NodeFacts facts;
    facts.set_node(name);
    facts.set_node_type("a100");
    facts.set_boot_id("boot");
    facts.set_host("127.0.0.1");
    facts.set_resource_type("ECS");
    facts.mutable_total()->set_gpu_milli(8'000);
    facts.mutable_total()->set_cpu_milli(64'000);
    facts.mutable_total()->set_memory_bytes(1ll << 40);
    for (int gpu = 0; gpu < 8; ++gpu) facts.add_gpu_ids(name + "-" + std::to_string(gpu));
    v1::Record record;
    record.set_key("node/" + name);
    record.set_kind("NodeFacts");
    facts.SerializeToString(record.mutable_body());
    store_[record.key()] = record;
    start(record.key());
  }
  run_ms(1'000);
}

void House::build(const std::string& address) {
  std::vector<v1::Record> records;
  const auto own = store_.find(address);
  if (own == store_.end()) return;
  records.push_back(own->second);
  for (auto it = store_.lower_bound(address + "#");
       it != store_.end() && it->first.starts_with(address + "#"); ++it) {
    records.push_back(it->second);
  }
  Cell& cell = cells_[address];
  cell.machine = actors::make_machine({address, cell.epoch, tuning}, records);
  cell.wake_at = -1;
  if (!cell.machine) broken.push_back("no machine for " + address);
}

void House::start(const std::string& address) {
  build(address);
  step(address, [&](Machine& machine, Effects& effects) { machine.start(now_, effects); });
}

void House::kill(const std::string& address) {
  ++cells_[address].epoch;
  start(address);
}

void House::power_off(const std::string& node) {
  std::erase_if(processes_, [&](const auto& entry) { return entry.second.node == node; });
}

void House::boot_anew(const std::string& node) {
  v1::Record& record = store_.at("node/" + node);
  v1::NodeFacts facts;
  facts.ParseFromString(record.body());
  facts.set_boot_id(facts.boot_id() + "+");
  facts.SerializeToString(record.mutable_body());
  kill("node/" + node);
}

void House::kill_ebbd() {
  std::vector<std::string> addresses;
  for (const auto& [address, cell] : cells_) {
    if (!is_node(address)) addresses.push_back(address);
  }
  for (const std::string& address : addresses) kill(address);
}

void House::step(const std::string& address, const std::function<void(Machine&, Effects&)>& act) {
  const auto cell = cells_.find(address);
  if (cell == cells_.end() || !cell->second.machine) return;
  Effects effects;
  act(*cell->second.machine, effects);
  const bool dies =
      mortal.count(std::string(actors::kind_of_address(address))) != 0 && chance(faults.die);
  carry_out(address, std::move(effects), !dies);
  if (dies && cells_.count(address) != 0) kill(address);
}

void House::carry_out(const std::string& address, Effects&& effects, bool sends) {
  for (v1::Record& record : effects.saves) {
    const std::string key = record.key();
    if (record.erased()) {
      store_.erase(key);
    } else {
      store_[key] = std::move(record);
    }
  }
  std::vector<std::string> born;
  for (v1::Record& record : effects.births) {
    born.push_back(record.key());
    store_[record.key()] = std::move(record);
  }
  check_books();
  if (std::getenv("TRACE") && faults.lose == 0)
    for (auto& d : effects.decisions)
      std::printf("@%ld   %s: %s\n", now_.mono_ms, address.c_str(), d.c_str());
  decisions.insert(decisions.end(), effects.decisions.begin(), effects.decisions.end());
  for (const std::string& alarm : effects.alarms) {
    // Under losses a node may well be silent for long enough to be suspected.
    const bool of_silence = alarm.starts_with("node suspect") || alarm.starts_with("node lost") ||
                            alarm.starts_with("no contact");
    const bool expected =
        (faults.lose > 0 && alarm.starts_with("node suspect")) || (silence_expected && of_silence);
    if (!expected) broken.push_back(address + ": " + alarm);
  }
  if (sends) {
    for (v1::Envelope& envelope : effects.sends) {
      envelope.set_from(address);
      fly(std::move(envelope));
    }
  }
  Cell& cell = cells_[address];
  if (effects.wake_at_mono_ms) cell.wake_at = *effects.wake_at_mono_ms;
  if (effects.ended) cells_.erase(address);
  for (const std::string& child : born) start(child);
}

void House::fly(v1::Envelope envelope) {
  // A node and its launcher live in one process: nothing is lost between them.
  const bool local = envelope.to().starts_with("launcher/") || envelope.has_reply() ||
                     envelope.from().starts_with("gateway") || !envelope.correlation_id().empty();
  const auto arrival = [&] {
    const std::int64_t latest = local ? 1 : faults.latest_ms;
    return now_.mono_ms + std::uniform_int_distribution<std::int64_t>(1, latest)(random_);
  };
  const bool beside =
      envelope.to().starts_with("launcher/") || envelope.from().starts_with("launcher/");
  if (!beside && (mute.count(envelope.from()) != 0 || deaf.count(envelope.to()) != 0)) return;
  if (!local && chance(faults.lose)) return;
  if (!local && chance(faults.twice)) flying_.emplace(arrival(), envelope);
  flying_.emplace(arrival(), std::move(envelope));
}

void House::deliver(const v1::Envelope& envelope) {
  if (std::getenv("TRACE")) {
    const std::string d = envelope.ShortDebugString();
    if ((envelope.node().has_pod_orders() || envelope.workload().has_pod_reports() ||
         envelope.pool().has_place_claim() || envelope.quota().has_claim_answer() ||
         envelope.workload().has_claim_placement() || envelope.pool().has_claim_use()) &&
        d.find("job/d2") != std::string::npos)
      std::printf("@%ld %s\n", now_.mono_ms, d.c_str());
  }
  if (envelope.to().starts_with("gateway")) {
    replies_[envelope.correlation_id()] = envelope.reply();
    return;
  }
  if (envelope.to().starts_with("launcher/")) {
    return launcher(envelope.to().substr(9), envelope.launcher());
  }
  step(envelope.to(), [&](Machine& machine, Effects& effects) {
    machine.handle(envelope, now_, effects);
    if (!effects.ended) machine.settle(now_, effects);
  });
}

void House::launcher(const std::string& node, const v1::LauncherInbox& order) {
  switch (order.message_case()) {
    case v1::LauncherInbox::kLaunch: {
      const v1::LaunchPod& launch = order.launch();
      Process process;
      process.node = node;
      process.key = launch.key();
      for (const v1::GpuShare& share : launch.gpus()) process.gpus.insert(share.gpu());
      for (const auto& [text, other] : processes_) {
        const bool same_claim = other.key.workload() == launch.key().workload() &&
                                other.key.index() == launch.key().index();
        if (same_claim && other.key.attempt() != launch.key().attempt()) {
          broken.push_back("I6: " + text_of(launch.key()) + " starts while " + text + " runs");
        }
        if (other.node != node) continue;
        for (const std::uint32_t gpu : process.gpus) {
          if (other.gpus.count(gpu) != 0 && text != text_of(launch.key())) {
            broken.push_back("I4: " + text_of(launch.key()) + " gets a GPU of " + text);
          }
        }
      }
      if (program) {
        const auto [runs_ms, exit_code] = program(launch.key());
        if (runs_ms >= 0) process.ends_at = now_.mono_ms + runs_ms;
        process.exit_code = exit_code;
      }
      report(processes_[text_of(launch.key())] = process, v1::ProcessReport::WHAT_STARTED);
      break;
    }
    case v1::LauncherInbox::kSignal: {
      const auto it = processes_.find(text_of(order.signal().key()));
      if (it == processes_.end() || order.signal().signo() != SIGTERM) break;
      if (it->second.ends_at >= 0 && it->second.ends_at <= now_.mono_ms + checkpoint_ms) break;
      it->second.ends_at = now_.mono_ms + checkpoint_ms;
      it->second.exit_code = 143;
      break;
    }
    case v1::LauncherInbox::kKill: {
      const auto it = processes_.find(text_of(order.kill().key()));
      if (it != processes_.end()) {
        it->second.ends_at = now_.mono_ms;
        if (it->second.exit_code == 0) it->second.exit_code = 137;
      } else {
        Process gone;
        gone.node = node;
        gone.key = order.kill().key();
        report(gone, v1::ProcessReport::WHAT_EMPTY);
      }
      break;
    }
    case v1::LauncherInbox::kProbe:
      for (const v1::PodKey& key : order.probe().alive()) {
        const auto it = processes_.find(text_of(key));
        Process absent;
        absent.node = node;
        absent.key = key;
        if (it == processes_.end()) {
          report(absent, v1::ProcessReport::WHAT_ABSENT);
        } else {
          report(it->second, v1::ProcessReport::WHAT_STARTED);
        }
      }
      break;
    default:
      break;
  }
}

void House::report(const Process& process, v1::ProcessReport::What what) {
  v1::Envelope envelope;
  envelope.set_from("launcher/" + process.node);
  envelope.set_to("node/" + process.node);
  envelope.set_correlation_id("launcher");
  v1::ProcessReport* report = envelope.mutable_node()->mutable_process_report();
  report->set_workload(process.key.workload());
  report->set_index(process.key.index());
  report->set_attempt(process.key.attempt());
  report->set_pod(process.key.pod());
  report->set_what(what);
  report->set_pid(1'000);
  report->set_exit_code(process.exit_code);
  flying_.emplace(now_.mono_ms + 1, std::move(envelope));
}

void House::end_processes() {
  for (auto it = processes_.begin(); it != processes_.end();) {
    if (it->second.ends_at < 0 || it->second.ends_at > now_.mono_ms) {
      ++it;
      continue;
    }
    report(it->second, v1::ProcessReport::WHAT_ENDED);
    report(it->second, v1::ProcessReport::WHAT_EMPTY);
    it = processes_.erase(it);
  }
}

/// From the saved records: what is charged to a quota and booked by its children is never more than
/// it holds.
void House::check_books() {
  for (const auto& [key, record] : store_) {
    if (record.kind() != "QuotaRecord") continue;
    v1::QuotaRecord quota;
    quota.ParseFromString(record.body());
    const bool is_root = quota.spec().parent_id().empty();
    scheduling::Amounts holding = is_root ? actors::amounts_of(quota.holding())
                                          : actors::amounts_of(quota.given_seen()) -
                                                actors::amounts_of(quota.returned_total());
    scheduling::Amounts spent;
    for (const v1::QuotaRecord::Edge& edge : quota.children()) {
      spent += actors::amounts_of(edge.given_total()) - actors::amounts_of(edge.returned_seen());
    }
    for (auto it = store_.lower_bound(key + "#");
         it != store_.end() && it->first.starts_with(key + "#"); ++it) {
      v1::ChargeRecord charge;
      charge.ParseFromString(it->second.body());
      spent[charge.node_type()] += actors::amount_of(charge.amount());
    }
    for (const auto& [type, amount] : spent) {
      const std::int64_t before = std::exchange(spent_before_[key + type], amount.gpu_milli);
      if (amount.gpu_milli <= holding[type].gpu_milli) continue;
      // What nodes took with them when they went stays booked until it comes home.
      if (is_root && amount.gpu_milli <= before) continue;
      broken.push_back("I1: " + key + " spends " + std::to_string(amount.gpu_milli) + " of " +
                       std::to_string(holding[type].gpu_milli));
    }
  }
}

std::int64_t House::next_due() const {
  std::int64_t next = flying_.empty() ? actors::kNever : flying_.begin()->first;
  for (const auto& [address, cell] : cells_) {
    if (cell.wake_at >= 0) next = std::min(next, cell.wake_at);
  }
  for (const auto& [text, process] : processes_) {
    if (process.ends_at >= 0) next = std::min(next, process.ends_at);
  }
  return next;
}

bool House::run_until(const std::function<bool()>& condition, std::int64_t ms) {
  const std::int64_t until = now_.mono_ms + ms;
  while (!condition()) {
    const std::int64_t next = std::max(now_.mono_ms, next_due());
    if (next > until) {
      now_.wall_ms += until - now_.mono_ms;
      now_.mono_ms = until;
      return condition();
    }
    rounds_ = next > now_.mono_ms ? 0 : rounds_ + 1;
    now_.wall_ms += next - now_.mono_ms;
    now_.mono_ms = next;
    end_processes();
    std::vector<std::string> waking;
    for (const auto& [address, cell] : cells_) {
      if (cell.wake_at >= 0 && cell.wake_at <= now_.mono_ms) waking.push_back(address);
    }
    if (rounds_ > kRoundsMax) {
      broken.push_back("spins: " + (waking.empty() ? "messages" : waking.front()));
      return false;
    }
    for (const std::string& address : waking) {
      const auto cell = cells_.find(address);
      if (cell == cells_.end()) continue;
      cell->second.wake_at = -1;
      step(address, [&](Machine& machine, Effects& effects) { machine.wake(now_, effects); });
    }
    while (!flying_.empty() && flying_.begin()->first <= now_.mono_ms) {
      const v1::Envelope envelope = std::move(flying_.begin()->second);
      flying_.erase(flying_.begin());
      deliver(envelope);
    }
  }
  return true;
}

void House::run_ms(std::int64_t ms) {
  (void)run_until([] { return false; }, ms);
}

std::string House::status(const std::string& address) {
  const auto it = store_.find(address);
  if (it == store_.end()) return "none";
  v1::WorkloadRecord record;
  record.ParseFromString(it->second.body());
  return record.status();
}

bool House::reaches(const std::string& address, const std::string& wanted, std::int64_t ms) {
  return run_until([&] { return status(address) == wanted; }, ms);
}

v1::Reply House::ask(const std::string& to, v1::Envelope envelope) {
  const FaultRates kept = faults;
  faults.die = 0;  // a gateway would ask again; here the question is asked once
  const std::string correlation = "c" + std::to_string(next_correlation_++);
  envelope.set_from("gateway/g");
  envelope.set_to(to);
  envelope.set_correlation_id(correlation);
  fly(std::move(envelope));
  const bool answered = run_until([&] { return replies_.count(correlation) != 0; }, 10'000);
  if (!answered) broken.push_back("no answer from " + to);
  faults = kept;
  return replies_[correlation];
}

v1::Reply House::tenant(const v1::TenantCommand& command) {
  v1::Envelope envelope;
  *envelope.mutable_tenant()->mutable_command() = command;
  return ask("tenant", std::move(envelope));
}
v1::Reply House::workspace(const v1::WorkspaceCommand& command) {
  v1::Envelope envelope;
  *envelope.mutable_workspace()->mutable_command() = command;
  return ask("workspace/w1", std::move(envelope));
}
v1::Reply House::quota(const std::string& id, const v1::QuotaCommand& command) {
  v1::Envelope envelope;
  *envelope.mutable_quota()->mutable_command() = command;
  return ask("quota/" + id, std::move(envelope));
}
v1::Reply House::workload(const std::string& address, const v1::WorkloadCommand& command) {
  v1::Envelope envelope;
  *envelope.mutable_workload()->mutable_command() = command;
  return ask(address, std::move(envelope));
}

void House::furnish(bool child_preemption) {
  v1::TenantCommand root;
  v1::QuotaSpec* spec = root.mutable_create_root()->mutable_spec();
  spec->set_quota_id("q1");
  spec->set_name("one");
  spec->set_queue_strategy("PaiStrategyIntelligent");
  spec->set_child_preemption(child_preemption);
  spec->mutable_child_filter()->set_priority_at_most(9);
  spec->mutable_child_filter()->add_products(v1::PRODUCT_JOB);
  v1::RootQuota::NodeCount* count = root.mutable_create_root()->add_nodes();
  count->set_node_type("a100");
  std::uint32_t nodes = 0;
  for (const auto& [address, cell] : cells_) nodes += is_node(address) ? 1 : 0;
  count->set_nodes(nodes);
  if (const v1::Reply made = tenant(root); made.has_refusal()) {
    broken.push_back("create root: " + made.refusal().message());
  }
  v1::TenantCommand workspace_command;
  workspace_command.mutable_create_workspace()->set_id("w1");
  workspace_command.mutable_create_workspace()->set_name("team_one");
  if (const v1::Reply made = tenant(workspace_command); made.has_refusal()) {
    broken.push_back("create workspace: " + made.refusal().message());
  }
  v1::WorkspaceCommand bind;
  bind.mutable_bind_quota()->set_quota_id("q1");
  (void)workspace(bind);
  run_ms(1'000);
}

void House::add_quota(const std::string& id, std::int64_t gpus) {
  v1::QuotaCommand create;
  v1::QuotaSpec* spec = create.mutable_create_child();
  spec->set_quota_id(id);
  spec->set_name(id);
  spec->set_parent_id("q1");
  spec->set_queue_strategy("PaiStrategyIntelligent");
  v1::TypedAmount* amount = spec->add_guarantee();
  amount->set_node_type("a100");
  amount->mutable_amount()->set_gpu_milli(gpus * 1'000);
  amount->mutable_amount()->set_cpu_milli(gpus * 8'000);
  amount->mutable_amount()->set_memory_bytes(gpus << 37);
  if (const v1::Reply made = quota("q1", create); made.has_refusal()) {
    broken.push_back("create " + id + ": " + made.refusal().message());
  }
  v1::WorkspaceCommand bind;
  bind.mutable_bind_quota()->set_quota_id(id);
  (void)workspace(bind);
  run_ms(1'000);
}

v1::Reply House::submit(v1::WorkloadSpec spec, const std::string& token,
                        const std::string& principal) {
  v1::WorkspaceCommand command;
  command.set_principal(principal);
  spec.set_pool("pool/q1");
  *command.mutable_create_workload()->mutable_workload() = std::move(spec);
  command.mutable_create_workload()->set_client_token(token);
  return workspace(command);
}

v1::WorkloadRecord House::describe(const std::string& address) {
  v1::WorkloadCommand command;
  command.set_describe(true);
  v1::WorkloadRecord record;
  record.ParseFromString(workload(address, command).body());
  return record;
}

v1::QuotaView House::quota_view(const std::string& id) {
  v1::QuotaCommand command;
  command.set_describe(true);
  v1::QuotaView view;
  view.ParseFromString(quota(id, command).body());
  return view;
}

std::size_t House::running(const std::string& workload) const {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [&](const auto& entry) { return entry.second.key.workload() == workload; }));
}

std::size_t House::running_on(const std::string& node, const std::string& workload) const {
  return static_cast<std::size_t>(
      std::count_if(processes_.begin(), processes_.end(), [&](const auto& entry) {
        return entry.second.node == node && entry.second.key.workload() == workload;
      }));
}

std::string House::last_decisions(std::size_t count) const {
  std::string text;
  for (std::size_t i = decisions.size() - std::min(count, decisions.size()); i < decisions.size();
       ++i) {
    text += decisions[i] + "\n";
  }
  for (const std::string& line : broken) text += "broken: " + line + "\n";
  return text;
}

}  // namespace ebb::test
