#include "sim/replay/run.hpp"

#include <algorithm>
#include <set>

#include "actors/records.hpp"
#include "sim/scenario/build.hpp"
#include "sim/world/world.hpp"

namespace ebb::sim {
namespace {
constexpr std::int64_t kZero = 1'000'000'000'000;  // wall time of the replay's first moment
constexpr std::int64_t kSettleMs = 5'000;          // before it: the machines get to know each other
constexpr std::int64_t kSampleMs = 600'000;
constexpr std::int64_t kAfterRunMs = 10'000;
constexpr std::int64_t kBeatMs = 6 * 3'600'000;
constexpr double kMsPerHour = 3'600'000;
constexpr std::int64_t kYears = 20LL * 365 * 24 * 3'600'000;

class Replay {
 public:
  Replay(const ReplayPlan& plan, const std::function<void(std::int64_t)>& progress)
      : plan_(plan), progress_(progress), world_(1, kZero - kSettleMs) {
    for (const NodeCase& node : plan.cluster.nodes) {
      out_.capacity_gpus += static_cast<double>(node.gpus);
      node_gpus_ = std::max(node_gpus_, node.gpus);
    }
    out_.jobs.resize(plan.jobs.size());
  }

  ReplayOutcome play() {
    // Nothing fails here: nodes that say nothing are well.
    world_.tuning = {.node_lost_after_ms = kYears, .stop_after_ms = kYears, .beat_ms = kBeatMs};
    static_cast<void>(build_start(plan_.cluster, kZero - kSettleMs, &world_));
    std::vector<std::string> addresses;
    for (const auto& [key, record] : world_.records()) {
      if (key.find('#') == std::string::npos) addresses.push_back(key);
    }
    for (const std::string& address : addresses) world_.boot(address);
    watch();
    for (std::size_t i = 0; i < plan_.services.size(); ++i) begin_service(i);
    submit_next(0);
    sample();
    for (std::int64_t hour = 1; hour * 3'600'000 < kYears && !over(); ++hour) {
      world_.run_until(kZero + hour * 3'600'000, ~0ull);
      if (progress_ && hour % 24 == 0) progress_(hour * 3'600'000);
    }
    account(now());
    out_.finished = ended_ == plan_.jobs.size();
    out_.window_hours = static_cast<double>(accounted_) / kMsPerHour;
    out_.messages = world_.counters().delivered;
    out_.steps = world_.counters().steps;
    out_.hash = world_.hash();
    return std::move(out_);
  }

 private:
  struct Service {
    std::string address;
    std::uint32_t wanted = 0, running = 0;
    std::size_t next = 0;
    std::int64_t turn_ms = 0;  // begin of this turn of the curve
    std::int64_t rise_ms = -1;
  };
  std::int64_t now() const { return world_.now().wall_ms - kZero; }
  bool over() const {
    return ended_ == plan_.jobs.size() && (plan_.window_ms == 0 || now() >= plan_.window_ms);
  }

  WorkloadCase job_case(std::size_t i) const {
    const ReplayJob& job = plan_.jobs[i];
    WorkloadCase workload;
    workload.id = "j" + std::to_string(i);
    workload.address = "job/" + workload.id;
    workload.quota = job.quota;
    workload.priority = job.priority;
    workload.idle = job.idle;
    workload.grace_ms = plan_.grace_ms;
    // Pods of one size, as large as a node takes.
    std::int64_t each = std::min(job.gpus, node_gpus_);
    while (job.gpus % each != 0) --each;
    workload.gpu_milli = each * 1000;
    workload.pods = static_cast<std::uint32_t>(job.gpus / each);
    return workload;
  }

  /// One after the other, so that the world's list of events stays short.
  void submit_next(std::size_t i) {
    if (i >= plan_.jobs.size()) return;
    world_.at(kZero + plan_.jobs[i].submit_ms, [this, i] {
      submit(i);
      submit_next(i + 1);
    });
  }

  void submit(std::size_t i) {
    const ReplayJob& job = plan_.jobs[i];
    const WorkloadCase workload = job_case(i);
    Program& program = world_.program(workload.address, 0);
    program.runs_ms = job.run_ms;
    program.checkpoint_every_ms = plan_.checkpoint_every_ms;
    program.saves_when_told = plan_.grace_ms > 0;
    v1::WorkloadRecord record;
    *record.mutable_spec() = spec_of(workload, plan_.cluster, world_.now().wall_ms);
    if (job.run_time_known) {
      record.mutable_spec()->set_run_at_most_ms(job.run_ms + plan_.restart_ms + kAfterRunMs);
    }
    waiting_.insert(i);
    world_.put(workload.address, "WorkloadRecord", record);
    world_.boot(workload.address);
  }

  void begin_service(std::size_t i) {
    const ReplayService& service = plan_.services[i];
    WorkloadCase workload;
    workload.id = service.id;
    workload.address = "service/" + service.id;
    workload.product = v1::PRODUCT_SERVICE;
    workload.quota = service.quota;
    workload.priority = service.priority;
    workload.gpu_milli = service.gpus * 1000;
    workload.pods = 0;
    v1::WorkloadRecord record;
    *record.mutable_spec() = spec_of(workload, plan_.cluster, world_.now().wall_ms);
    world_.put(workload.address, "WorkloadRecord", record);
    world_.boot(workload.address);
    services_.push_back({.address = workload.address});
    service_numbers_[workload.address] = i;
    demand_next(i);
  }

  void demand_next(std::size_t i) {
    const ReplayService& plan = plan_.services[i];
    Service& service = services_[i];
    if (service.next == plan.demand.size()) {
      if (plan.repeat_ms <= 0) return;
      service.next = 0;
      service.turn_ms += plan.repeat_ms;
    }
    const ReplayDemand& step = plan.demand[service.next++];
    world_.at(kZero + service.turn_ms + step.at_ms, [this, i, replicas = step.replicas] {
      if (!over()) {
        scale(i, replicas);
        demand_next(i);
      }
    });
  }

  void scale(std::size_t i, std::uint32_t replicas) {
    Service& service = services_[i];
    if (replicas == service.wanted) return;
    account(now());
    service.rise_ms = replicas > service.wanted ? now() : -1;
    service.wanted = replicas;
    v1::Envelope envelope;
    envelope.set_to(service.address);
    envelope.mutable_workload()->mutable_command()->set_scale(replicas);
    world_.ask_now(std::move(envelope));
    note_step(service);
  }
  void note_step(Service& service) {
    if (service.rise_ms < 0 || service.running < service.wanted) return;
    out_.step_seconds.push_back(static_cast<double>(now() - service.rise_ms) / 1000);
    service.rise_ms = -1;
  }

  void watch() {
    world_.on_start = [this](const PodId& id, const std::string&) { started(id); };
    world_.on_end = [this](const PodId& id, const std::string&) { ended(id); };
    world_.on_save = [this](const v1::Record& record) { saved(record); };
  }
  static std::size_t number_of(const std::string& address) {
    return static_cast<std::size_t>(std::stoull(address.substr(sizeof "job/j" - 1)));
  }

  void started(const PodId& id) {
    account(now());
    if (const auto found = service_numbers_.find(id.workload); found != service_numbers_.end()) {
      Service& service = services_[found->second];
      ++service.running;
      return note_step(service);
    }
    const std::size_t i = number_of(id.workload);
    training_gpus_ += pod_gpus(i);
    if (id.pod != 0) return;
    JobOutcome& job = out_.jobs[i];
    waiting_.erase(i);
    if (job.started_ms < 0) {
      job.started_ms = now();
    } else {
      // Loading the checkpoint keeps the GPUs and does no work.
      world_.program(id.workload, 0).runs_ms += plan_.restart_ms;
      lose(i, static_cast<double>(plan_.restart_ms));
    }
  }

  void ended(const PodId& id) {
    account(now());
    if (const auto found = service_numbers_.find(id.workload); found != service_numbers_.end()) {
      --services_[found->second].running;
      return;
    }
    const std::size_t i = number_of(id.workload);
    training_gpus_ -= pod_gpus(i);
    if (id.pod != 0) return;
    const Program& program = world_.program(id.workload, 0);
    lose(i, static_cast<double>(program.lost_ms - std::exchange(lost_before_[i], program.lost_ms)));
  }
  void lose(std::size_t i, double ms) {
    const double hours = ms * static_cast<double>(plan_.jobs[i].gpus) / kMsPerHour;
    out_.jobs[i].lost_gpu_hours += hours;
    if (plan_.window_ms == 0 || now() <= plan_.window_ms) out_.lost_gpu_hours += hours;
  }
  double pod_gpus(std::size_t i) const { return static_cast<double>(job_case(i).gpu_milli) / 1000; }

  void saved(const v1::Record& record) {
    if (record.kind() != "WorkloadRecord" || !record.key().starts_with("job/")) return;
    v1::WorkloadRecord workload;
    if (record.erased() || !workload.ParseFromString(record.body())) return;
    const std::size_t i = number_of(record.key());
    JobOutcome& job = out_.jobs[i];
    if (job.evictions != workload.preemptions()) {
      job.evictions = workload.preemptions();
      waiting_.insert(i);
    }
    if (workload.claims_size() > 0) classes_[i] = workload.claims(0).claim_class();
    if (workload.status() != "Succeeded" || job.ended_ms >= 0) return;
    job.ended_ms = now();
    waiting_.erase(i);
    classes_.erase(i);
    lost_before_.erase(i);
    ++ended_;
  }

  /// Adds up what was held since the last change.
  void account(std::int64_t at) {
    const std::int64_t until = plan_.window_ms > 0 ? std::min(at, plan_.window_ms) : at;
    if (until <= accounted_) return;
    const double hours = static_cast<double>(until - accounted_) / kMsPerHour;
    accounted_ = until;
    out_.training_gpu_hours += hours * training_gpus_;
    for (std::size_t i = 0; i < services_.size(); ++i) {
      const double gpus = static_cast<double>(plan_.services[i].gpus);
      const Service& service = services_[i];
      const std::uint32_t served = std::min(service.running, service.wanted);
      out_.serving_gpu_hours += hours * gpus * served;
      out_.wanted_gpu_hours += hours * gpus * service.wanted;
      out_.unmet_gpu_hours += hours * gpus * (service.wanted - served);
    }
  }

  void sample() {
    Sample sample;
    sample.at_ms = now();
    for (const auto& [i, claim_class] : classes_) {
      if (waiting_.count(i) != 0) continue;
      const double gpus = static_cast<double>(plan_.jobs[i].gpus);
      if (claim_class == v1::CLAIM_CLASS_IDLE) sample.idle += gpus;
      if (claim_class == v1::CLAIM_CLASS_IN_QUOTA) sample.in_quota[plan_.jobs[i].quota] += gpus;
    }
    for (std::size_t i = 0; i < services_.size(); ++i) {
      sample.serving += static_cast<double>(plan_.services[i].gpus) * services_[i].running;
      sample.demand += static_cast<double>(plan_.services[i].gpus) * services_[i].wanted;
    }
    sample.waiting = waiting_.size();
    out_.samples.push_back(std::move(sample));
    if (!over()) world_.at(kZero + now() + kSampleMs, [this] { this->sample(); });
  }

  const ReplayPlan& plan_;
  const std::function<void(std::int64_t)>& progress_;
  World world_;
  ReplayOutcome out_;
  std::int64_t node_gpus_ = 0;
  std::vector<Service> services_;
  std::map<std::string, std::size_t> service_numbers_;
  std::map<std::size_t, v1::ClaimClass> classes_;  // of jobs that have not ended
  std::map<std::size_t, std::int64_t> lost_before_;
  std::set<std::size_t> waiting_;
  double training_gpus_ = 0;
  std::int64_t accounted_ = 0;
  std::size_t ended_ = 0;
};

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}
double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}
}  // namespace

ReplayOutcome run_replay(const ReplayPlan& plan,
                         const std::function<void(std::int64_t)>& progress) {
  return Replay(plan, progress).play();
}

Json summary_of(const ReplayPlan& plan, const ReplayOutcome& outcome) {
  std::vector<double> jct, queue;
  std::map<std::string, std::vector<double>> queue_by_quota;
  double lost = 0, makespan = 0;
  std::size_t evicted = 0, evictions = 0, unfinished = 0;
  for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
    const JobOutcome& job = outcome.jobs[i];
    evictions += job.evictions;
    evicted += job.evictions > 0 ? 1 : 0;
    lost += job.lost_gpu_hours;
    if (job.ended_ms < 0) {
      ++unfinished;
      continue;
    }
    const double total = static_cast<double>(job.ended_ms - plan.jobs[i].submit_ms) / 1000;
    const double waited = total - static_cast<double>(plan.jobs[i].run_ms) / 1000;
    jct.push_back(total);
    queue.push_back(waited);
    queue_by_quota[plan.jobs[i].quota].push_back(waited);
    makespan = std::max(makespan, static_cast<double>(job.ended_ms) / 1000);
  }
  Json by_quota = Json::object();
  for (const auto& [quota, values] : queue_by_quota) by_quota[quota] = mean(values);
  const double held = outcome.capacity_gpus * outcome.window_hours;
  const double useful =
      outcome.serving_gpu_hours + outcome.training_gpu_hours - outcome.lost_gpu_hours;
  return {{"jobs", plan.jobs.size()},
          {"unfinished", unfinished},
          {"mean_jct_s", mean(jct)},
          {"p50_jct_s", quantile(jct, 0.5)},
          {"p99_jct_s", quantile(jct, 0.99)},
          {"mean_queue_s", mean(queue)},
          {"p50_queue_s", quantile(queue, 0.5)},
          {"p99_queue_s", quantile(queue, 0.99)},
          {"mean_queue_s_by_quota", by_quota},
          {"makespan_s", makespan},
          {"use", held > 0 ? (outcome.serving_gpu_hours + outcome.training_gpu_hours) / held : 0},
          {"useful_use", held > 0 ? useful / held : 0},
          {"unmet_share",
           outcome.wanted_gpu_hours > 0 ? outcome.unmet_gpu_hours / outcome.wanted_gpu_hours : 0},
          {"step_p99_s", quantile(outcome.step_seconds, 0.99)},
          {"jobs_evicted", evicted},
          {"jobs_evicted_share", plan.jobs.empty() ? 0
                                                   : static_cast<double>(evicted) /
                                                         static_cast<double>(plan.jobs.size())},
          {"evictions", evictions},
          {"lost_gpu_hours", lost},
          {"messages", outcome.messages},
          {"hash", outcome.hash}};
}

}  // namespace ebb::sim
