#include "sim/scenario/play.hpp"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include "actors/records.hpp"
#include "sim/scenario/build.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kZero = 1'800'000'000'000;  // t = 0 on the wall
constexpr std::int64_t kBefore = 10'000;           // the machines have that long to meet

std::int64_t ms(const Json& seconds) { return std::llround(seconds.get<double>() * 1000); }

class Player {
 public:
  Player(const Scenario& scenario, std::uint64_t seed, std::ostream* trace)
      : scenario_(scenario), trace_(trace), world_(seed, kZero - kBefore) {}

  Verdict play() {
    // The form counts a silent node as lost after 300 s; its jobs run again elsewhere soon after.
    world_.tuning = {.node_lost_after_ms = 300'000, .stop_after_ms = 300'000};
    for (const WorkloadCase& workload : scenario_.workloads) set_programs(workload);
    const auto waiting = build_start(scenario_, kZero, &world_);
    if (!waiting) return {{waiting.refusal().message}, 0};
    watch();
    boot_all();
    std::int64_t moment = kZero - kBefore / 2;
    for (const std::string& id : *waiting) {
      world_.at(moment += 10, [this, id] { submit(id); });
    }
    // A service that starts with no replica is there before anything scales it.
    for (const WorkloadCase& workload : scenario_.workloads) {
      const bool known = world_.records().count(workload.address) != 0;
      if (workload.product == v1::PRODUCT_SERVICE && !known && !is_submitted_later(workload.id) &&
          std::find(waiting->begin(), waiting->end(), workload.id) == waiting->end()) {
        world_.at(moment += 10, [this, id = workload.id] { submit(id); });
      }
    }
    for (const Json& event : scenario_.events) {
      world_.at(kZero + ms(event.at("at")), [this, &event] { happen(event); });
    }
    const Json& expect = scenario_.expect;
    for (const Json& point : expect.value("checkpoints", Json::array())) {
      run_until(ms(point.at("at")));
      check_state(point, "at " + point.at("at").dump() + " s: ");
    }
    const std::int64_t by = ms(expect.at("by"));
    const std::int64_t hold = expect.contains("hold") ? ms(expect.at("hold")) : 0;
    run_until(by);
    check_end("by: ");
    run_until(by + hold);
    if (hold > 0) check_end("by + hold: ");
    check_course();
    return {failed_, world_.hash()};
  }

 private:
  struct Seen {
    bool running = false;
    bool finished = false;
    bool holds = false;
    std::uint32_t replicas = 0;
  };

  void fail(const std::string& line) {
    if (std::find(failed_.begin(), failed_.end(), line) == failed_.end()) failed_.push_back(line);
  }
  void run_until(std::int64_t t_ms) {
    if (!world_.run_until(kZero + t_ms)) fail("the world did not come to rest");
  }
  bool is_submitted_later(const std::string& id) const {
    return std::any_of(scenario_.events.begin(), scenario_.events.end(), [&](const Json& event) {
      return event.at("do") == "submit" && event.at("id") == id;
    });
  }
  std::vector<const WorkloadCase*> matching(const std::string& pattern) const {
    std::vector<const WorkloadCase*> found;
    for (const WorkloadCase& workload : scenario_.workloads) {
      if (fits(pattern, workload.id)) found.push_back(&workload);
    }
    // The id of a counted entry stands for all its members.
    if (found.empty() && pattern.find('*') == std::string::npos) return matching_members(pattern);
    return found;
  }
  std::vector<const WorkloadCase*> matching_members(const std::string& id) const {
    std::vector<const WorkloadCase*> found;
    for (const WorkloadCase& workload : scenario_.workloads) {
      if (fits(id + "-*", workload.id)) found.push_back(&workload);
    }
    return found;
  }

  void set_programs(const WorkloadCase& workload) {
    constexpr std::uint32_t kReplicas = 64;
    const std::uint32_t count = workload.product == v1::PRODUCT_SERVICE ? kReplicas : 1;
    for (std::uint32_t i = 0; i < count; ++i) {
      Program& program = world_.program(workload.address, i);
      program.runs_ms = workload.runs_ms;
      program.checkpoint_every_ms = workload.checkpoint_every_ms;
    }
  }

  void boot_all() {
    std::vector<std::string> addresses;
    for (const auto& [key, record] : world_.records()) {
      if (key.find('#') == std::string::npos) addresses.push_back(key);
    }
    for (const std::string& address : addresses) world_.boot(address);
  }

  void watch() {
    world_.on_save = [this](const v1::Record& record) { saved(record); };
    world_.on_start = [this](const PodId& id, const std::string&) {
      starts_[id.workload].push_back(world_.now().wall_ms);
      moved_ = true;
    };
    world_.on_decision = [this](const std::string& address, const std::string& line) {
      if (trace_ == nullptr) return;
      *trace_ << (world_.now().wall_ms - kZero) << " ms " << address << ": " << line << '\n';
    };
    world_.after_step = [this] { check_always(); };
    world_.on_deliver = [this](v1::Envelope& envelope) {
      if (!envelope.has_node() || !envelope.node().has_pod_orders()) return;
      v1::PodOrders* orders = envelope.mutable_node()->mutable_pod_orders();
      if (refused_.count(orders->claim().workload()) == 0) return;
      constexpr std::uint32_t kNoSuchGpu = 1'000'000;
      for (v1::PodOrder& order : *orders->mutable_pods()) {
        for (v1::GpuShare& share : *order.mutable_gpus()) share.set_gpu(kNoSuchGpu);
      }
    };
  }

  void saved(const v1::Record& record) {
    if (record.kind() == "QuotaRecord") moved_ = true;
    if (record.kind() != "WorkloadRecord" || record.erased()) return;
    v1::WorkloadRecord workload;
    if (!workload.ParseFromString(record.body())) return;
    for (const v1::ClaimRecord& claim : workload.claims()) {
      const v1::PreemptReason reason = claim.leaving_for().reason();
      if (reason == v1::PREEMPT_REASON_UNSPECIFIED || reason == v1::PREEMPT_REASON_NODE_LOST) {
        continue;
      }
      if (world_.now().wall_ms < kZero) continue;
      evictions_.insert({workload.spec().id(), {claim.index(), claim.attempt()}});
    }
  }

  v1::Reply ask(const std::string& to, const std::function<void(v1::Envelope*)>& fill) {
    v1::Envelope envelope;
    envelope.set_to(to);
    fill(&envelope);
    return world_.ask_now(std::move(envelope));
  }
  void command(const std::string& to, const std::string& what,
               const std::function<void(v1::Envelope*)>& fill) {
    const v1::Reply reply = ask(to, fill);
    if (!reply.refusal().code().empty()) {
      refusals_.push_back(what + ": " + reply.refusal().message());
    }
  }

  void submit(const std::string& id) {
    const WorkloadCase* workload = scenario_.workload(id);
    if (workload == nullptr) {
      for (const WorkloadCase* member : matching_members(id)) submit(member->id);
      return;
    }
    v1::WorkloadRecord record;
    *record.mutable_spec() = spec_of(*workload, scenario_, world_.now().wall_ms);
    world_.put(workload->address, "WorkloadRecord", record);
    world_.boot(workload->address);
  }

  void happen(const Json& event) {
    const std::string what = event.at("do").get<std::string>();
    if (what == "submit") return submit(event.at("id"));
    if (what == "finish" || what == "refuseBind" || what == "holdEvictionConfirm" ||
        what == "releaseEvictionConfirm") {
      for (const WorkloadCase* workload : matching(event.at("id"))) act(what, workload->address);
      return;
    }
    if (what == "scaleService") return scale_service(event);
    if (what == "scaleQuota") return scale_quota(event);
    if (what == "setChildPreemption") return set_rule(event);
    const std::string node = event.value("node", event.value("name", ""));
    if (what == "cordon" || what == "uncordon") {
      return command("tenant", what, [&](v1::Envelope* envelope) {
        v1::OperateNode* operate =
            envelope->mutable_tenant()->mutable_command()->mutable_operate_node();
        operate->set_node(node);
        operate->set_operation(what == "cordon" ? "Cordon" : "Uncordon");
      });
    }
    if (what == "nodeLost") {
      world_.cut("node/" + node, true);
      world_.crash("node/" + node);
      world_.launcher(node).clear();
      return;
    }
    if (what == "nodeBack") {
      v1::NodeFacts facts;
      if (world_.read("node/" + node, &facts)) {
        facts.set_boot_id(facts.boot_id() + "+");  // it has booted anew: nothing of it runs
        world_.put("node/" + node, "NodeFacts", facts);
      }
      world_.cut("node/" + node, false);
      world_.boot("node/" + node);
      return;
    }
    fail("event \"" + what + "\" is unknown");
  }

  void act(const std::string& what, const std::string& address) {
    if (what == "refuseBind") {
      refused_.insert(address);
      return;
    }
    for (const NodeCase& node : scenario_.nodes) {
      if (what == "finish") {
        world_.launcher(node.name).finish(address);
      } else {
        world_.launcher(node.name).hold(address, what == "holdEvictionConfirm");
      }
    }
  }

  void scale_service(const Json& event) {
    const auto found = matching(event.at("id"));
    if (found.empty()) return fail("scaleService: unknown service");
    command(found.front()->address, "scaleService", [&](v1::Envelope* envelope) {
      envelope->mutable_workload()->mutable_command()->set_scale(
          event.at("replicas").get<std::uint32_t>());
    });
  }
  void scale_quota(const Json& event) {
    const QuotaCase* quota = scenario_.quota(event.at("quota"));
    if (quota == nullptr) return fail("scaleQuota: unknown quota");
    command("quota/" + quota->spec.parent_id(), "scaleQuota", [&](v1::Envelope* envelope) {
      v1::ScaleQuotas* scale =
          envelope->mutable_quota()->mutable_command()->mutable_scale_children();
      scale->set_preempt(event.value("allowPreemption", false));
      v1::ScaleQuotas::One* one = scale->add_quotas();
      one->set_quota_id(quota->spec.quota_id());
      actors::set(one->mutable_guarantee(), min_of(event.at("min"), scenario_.nodes));
    });
  }
  void set_rule(const Json& event) {
    const std::string quota = event.at("quota").get<std::string>();
    v1::QuotaRecord record;
    if (!world_.read("quota/" + quota, &record)) return fail("setChildPreemption: unknown quota");
    Json rule = event.contains("childPreemption") ? event.at("childPreemption") : event;
    set_child_preemption(rule, record.mutable_spec());
    command("quota/" + quota, "setChildPreemption", [&](v1::Envelope* envelope) {
      *envelope->mutable_quota()->mutable_command()->mutable_update() = record.spec();
    });
  }

  Seen look(const WorkloadCase& workload) const {
    Seen seen;
    v1::WorkloadRecord record;
    if (!world_.read(workload.address, &record)) return seen;
    seen.finished = record.status() == "Succeeded";
    for (const v1::ClaimRecord& claim : record.claims()) {
      if (claim.phase() == v1::CLAIM_PHASE_RUNNING) ++seen.replicas;
      if (claim.phase() != v1::CLAIM_PHASE_WAITING && claim.phase() != v1::CLAIM_PHASE_GONE) {
        seen.holds = true;
      }
    }
    const bool alone = workload.product == v1::PRODUCT_SERVICE;
    seen.running = !seen.finished && seen.replicas > 0 &&
                   (!alone || seen.replicas >= record.replicas_wanted());
    return seen;
  }

  std::vector<std::string> state_faults(const Json& expect) {
    std::vector<std::string> faults;
    const auto each = [&](const char* key, auto holds) {
      for (const Json& pattern : expect.value(key, Json::array())) {
        const auto found = matching(pattern);
        if (found.empty()) faults.push_back(std::string(key) + ": no workload " + pattern.dump());
        for (const WorkloadCase* workload : found) {
          if (!holds(look(*workload))) faults.push_back(workload->id + " is not " + key);
        }
      }
    };
    each("running", [](const Seen& seen) { return seen.running; });
    each("waiting", [](const Seen& s) { return !s.running && !s.finished && !s.holds; });
    each("finished", [](const Seen& seen) { return seen.finished; });
    for (const Json& entry : expect.value("runningCount", Json::array())) {
      int n = 0;
      for (const WorkloadCase* workload : matching(entry.at("of"))) n += look(*workload).running;
      if (n != entry.at("n").get<int>()) {
        faults.push_back(std::to_string(n) + " of " + entry.at("of").dump() + " run, not " +
                         entry.at("n").dump());
      }
    }
    const Json replicas = expect.value("serviceReplicas", Json::object());
    for (const auto& [id, n] : replicas.items()) {
      const auto found = matching(id);
      const std::uint32_t have = found.empty() ? 0 : look(*found.front()).replicas;
      if (have != n.get<std::uint32_t>()) {
        faults.push_back(id + " has " + std::to_string(have) + " replicas, not " + n.dump());
      }
    }
    if (expect.contains("evicted")) check_evicted(expect.at("evicted"), &faults);
    return faults;
  }
  void check_state(const Json& expect, const std::string& when) {
    for (const std::string& fault : state_faults(expect)) fail(when + fault);
  }

  bool was_evicted(const std::string& id) const {
    const auto it = evictions_.lower_bound({id, {0, 0}});
    return it != evictions_.end() && it->first == id;
  }
  void check_evicted(const Json& patterns, std::vector<std::string>* faults) {
    std::set<std::string> wanted;
    for (const Json& pattern : patterns) {
      for (const WorkloadCase* workload : matching(pattern)) wanted.insert(workload->id);
    }
    for (const WorkloadCase& workload : scenario_.workloads) {
      const bool is = was_evicted(workload.id);
      const bool should = wanted.count(workload.id) != 0;
      if (is && !should) faults->push_back(workload.id + " was evicted");
      if (!is && should) faults->push_back(workload.id + " was not evicted");
    }
  }

  void check_end(const std::string& when) {
    const Json& expect = scenario_.expect;
    check_state(expect, when);
    if (expect.contains("oneOf")) {
      std::string all;
      bool any = false;
      for (const Json& end : expect.at("oneOf")) {
        const auto faults = state_faults(end);
        any = any || faults.empty();
        if (!faults.empty()) all += (all.empty() ? "" : " / ") + faults.front();
      }
      if (!any) fail(when + "none of oneOf: " + all);
    }
    const Json places = expect.value("onOneOf", Json::object());
    for (const auto& [id, nodes] : places.items()) {
      for (const WorkloadCase* workload : matching(id)) check_places(*workload, nodes, when);
    }
    const Json reasons = expect.value("reason", Json::object());
    for (const auto& [id, reason] : reasons.items()) {
      for (const WorkloadCase* workload : matching(id)) check_reason(*workload, reason, when);
    }
    const Json mins = expect.value("quotaMin", Json::object());
    for (const auto& [id, min] : mins.items()) {
      scheduling::Amounts have = min_now(id);
      for (const auto& [type, amount] : min_of(min, scenario_.nodes)) {
        if (have[type] != amount) fail(when + "min of " + id + " is not so");
      }
    }
    if (expect.value("minimal", false)) check_minimal(when);
  }

  void check_places(const WorkloadCase& workload, const Json& allowed, const std::string& when) {
    std::set<std::string> on;
    for (const auto& [node, launcher] : world_.launchers()) {
      for (const auto& [id, process] : launcher->processes()) {
        if (id.workload == workload.address) on.insert(node);
      }
    }
    bool good = false;
    std::set<std::string> names;
    for (const Json& entry : allowed) {
      if (entry.is_array()) {
        good = good || on == entry.get<std::set<std::string>>();
      } else {
        names.insert(entry.get<std::string>());
      }
    }
    if (!names.empty() && !on.empty()) {
      good = std::includes(names.begin(), names.end(), on.begin(), on.end());
    }
    if (!good) fail(when + workload.id + " does not lie on " + allowed.dump());
  }

  void check_reason(const WorkloadCase& workload, const Json& expected, const std::string& when) {
    const v1::Reply reply = ask(workload.address, [](v1::Envelope* envelope) {
      envelope->mutable_workload()->mutable_command()->set_describe(true);
    });
    v1::WorkloadRecord record;
    record.ParseFromString(reply.body());
    std::string said = actors::name_of(record.wait().code());
    if (said == "order") said = "quota";       // what stands before it has the quota's units
    if (said == "victims") said = "capacity";  // its GPUs are not free yet
    if (said != expected.get<std::string>()) {
      fail(when + workload.id + " waits for \"" + said + "\" (" + record.wait().sentence() +
           "), not " + expected.dump());
    }
  }

  scheduling::Amounts min_now(const std::string& quota) const {
    const QuotaCase* known = scenario_.quota(quota);
    if (known == nullptr) return {};
    v1::QuotaRecord record;
    const std::string parent = known->spec.parent_id();
    if (parent.empty()) {
      world_.read("quota/" + quota, &record);
      return actors::amounts_of(record.spec().guarantee());
    }
    world_.read("quota/" + parent, &record);
    for (const v1::QuotaRecord::Edge& edge : record.children()) {
      if (edge.quota_id() == quota) return actors::amounts_of(edge.guarantee());
    }
    return {};
  }

  /// A victim that still waits, although it fits whole into what is free, need not have gone.
  void check_minimal(const std::string& when) {
    std::map<std::string, std::int64_t> free;
    for (const NodeCase& node : scenario_.nodes) {
      if (node.cordoned || !world_.alive("node/" + node.name)) continue;
      std::int64_t left = node.gpus * 1000;
      for (const auto& [id, process] : world_.launcher(node.name).processes()) {
        left -= process.gpu_milli;
      }
      free[node.name] = left;
    }
    for (const WorkloadCase& workload : scenario_.workloads) {
      if (!was_evicted(workload.id) || workload.gpu_milli == 0) continue;
      const Seen seen = look(workload);
      if (seen.running || seen.finished || seen.holds) continue;
      std::int64_t fit = 0;
      for (const auto& [node, left] : free)
        fit += std::max<std::int64_t>(0, left) / workload.gpu_milli;
      if (fit >= workload.pods) fail(when + workload.id + " was evicted without need");
    }
  }

  std::int64_t gpus_of(const std::string& pattern) {
    std::set<std::string> addresses;
    for (const WorkloadCase* workload : matching(pattern)) addresses.insert(workload->address);
    std::int64_t sum = 0;
    for (const auto& [node, launcher] : world_.launchers()) {
      for (const auto& [id, process] : launcher->processes()) {
        if (addresses.count(id.workload) != 0) sum += process.gpu_milli;
      }
    }
    return sum;
  }

  /// At every moment; only what has changed can break it.
  void check_always() {
    if (!moved_) return;
    moved_ = false;
    const Json& expect = scenario_.expect;
    for (const Json& rule : expect.value("always", Json::array())) {
      std::int64_t sum = 0;
      if (rule.contains("gpusOf")) sum = gpus_of(rule.at("gpusOf"));
      for (const Json& quota : rule.value("sumOfMin", Json::array())) {
        for (const auto& [type, amount] : min_now(quota)) sum += amount.gpu_milli;
      }
      if (sum > ms(rule.at("max"))) fail("always " + rule.dump() + " was broken");
    }
    for (const Json& pair : expect.value("neverTogether", Json::array())) {
      if (gpus_of(pair.at(0)) > 0 && gpus_of(pair.at(1)) > 0) {
        fail("neverTogether " + pair.dump() + " held GPUs together");
      }
    }
    for (const NodeCase& node : scenario_.nodes) {  // I4 on the ground truth
      std::int64_t held = 0;
      for (const auto& [id, process] : world_.launcher(node.name).processes()) {
        held += process.gpu_milli;
      }
      if (held > node.gpus * 1000) fail("I4: node " + node.name + " runs more than it has");
    }
  }

  void check_course() {
    const Json& expect = scenario_.expect;
    for (const Json& pattern : expect.value("neverEvicted", Json::array())) {
      for (const WorkloadCase* workload : matching(pattern)) {
        if (was_evicted(workload->id)) fail(workload->id + " was evicted");
      }
    }
    const Json bounds = expect.value("evictions", Json::object());
    const auto count = static_cast<std::int64_t>(evictions_.size());
    if ((bounds.contains("min") && count < bounds.at("min").get<std::int64_t>()) ||
        (bounds.contains("max") && count > bounds.at("max").get<std::int64_t>())) {
      fail(std::to_string(count) + " evictions, not " + bounds.dump());
    }
    for (const Json& pair : expect.value("order", Json::array())) {
      const std::int64_t first = last_start(pair.at(0));
      const std::int64_t second = last_start(pair.at(1));
      if (first == 0 || second == 0 || first >= second) fail("order " + pair.dump() + " not kept");
    }
    const Json lost = expect.value("lostWork", Json::object());
    for (const auto& [id, most] : lost.items()) {
      for (const WorkloadCase* workload : matching(id)) {
        const std::int64_t have = world_.program(workload->address, 0).lost_ms;
        const Json& at_most = most.is_object() ? most.at("maxSeconds") : most;
        if (have > ms(at_most)) fail(id + " lost " + std::to_string(have) + " ms of work");
      }
    }
    if (!failed_.empty()) {
      for (const std::string& line : refusals_) fail("note: refused: " + line);
    }
  }
  std::int64_t last_start(const std::string& pattern) {
    std::int64_t last = 0;
    for (const WorkloadCase* workload : matching(pattern)) {
      const auto& starts = starts_[workload->address];
      if (!starts.empty()) last = std::max(last, starts.back());
    }
    return last;
  }

  const Scenario& scenario_;
  std::ostream* const trace_;
  World world_;
  std::vector<std::string> failed_;
  std::vector<std::string> refusals_;
  std::set<std::pair<std::string, std::pair<std::uint32_t, std::uint32_t>>> evictions_;
  std::map<std::string, std::vector<std::int64_t>> starts_;
  std::set<std::string> refused_;  // by every node
  bool moved_ = true;
};
}  // namespace

Verdict play(const Scenario& scenario, std::uint64_t seed, std::ostream* trace) {
  return Player(scenario, seed, trace).play();
}

}  // namespace ebb::sim
