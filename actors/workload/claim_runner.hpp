// One claim's life: a job's gang, one replica of a service, a dev instance. It talks to the quota
// (is it admitted), to the pool (where its pods go) and to each node that holds a pod of it; the
// workload above it decides what the end of a pod means.
//
// Unit: milliseconds. Errors: late and repeated records are ignored.
// Source: DESIGN section 5, docs/architecture.md "A claim's way". Keeps I6 (the next attempt begins
// when every node has given its receipt for the last), I7 (no pod runs before all are bound and
// that is saved).
//
//   Waiting --Placed--> Binding --AllStarted--> Running
//      ^                   |                       |
//      |                   +----Leave / refused----+--Leave--> Leaving --AllGone--> next attempt's
//      Waiting, or Gone
//      +--------------------------------------------------------------+
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/conversation.hpp"
#include "actors/machine.hpp"
#include "actors/records.hpp"

namespace ebb::actors {

/// What happened to the claim, for its workload to act on.
enum class Happening {
  Placed,       // pods have places and are being bound
  Started,      // all pods run
  PodEnded,     // a pod ended by itself: `pod`, `exit_code`
  Leaving,      // told to go: `preempt`
  Upgraded,     // an idle claim is covered by its quota now, where it lies
  NeverFits,    // its quota says it can never be placed: `never`
  NodeSilent,   // a node that holds a pod of it does not answer: `error` names it
  NodeHeard,    // all of them answer again
  AttemptOver,  // every node has given its receipt: `preempt` if it was told to go
};
struct ClaimHappening {
  Happening what = Happening::Placed;
  std::uint32_t pod = 0;
  std::int32_t exit_code = 0;
  std::string error;
  v1::Preempt preempt;
  bool preempted = false;
  v1::Refusal never;
  v1::ClaimClass claim_class = v1::CLAIM_CLASS_UNSPECIFIED;  // AttemptOver: as it was held
  std::vector<v1::PodRecord> pods;                           // AttemptOver: as they ended
};

class ClaimRunner {
 public:
  ClaimRunner(const Context& context, std::uint32_t index);
  /// Rebuilt from its record.
  ClaimRunner(const Context& context, const v1::ClaimRecord& record);

  /// Begins (or begins again, after `hold_ms`) to want a placement. Only while it holds nothing.
  void want(Instant now, std::int64_t hold_ms = 0);
  /// Every pod goes, with the grace period; then it waits again (after `hold_ms`).
  void leave(Instant now, std::int64_t hold_ms = 0);
  /// Every pod goes; then it is over.
  void finish(Instant now);
  /// Pods that ended stay ended; over at once where all have.
  bool over() const { return record_.phase() == v1::CLAIM_PHASE_GONE && !record_.wanted(); }
  /// Over, and every neighbour knows: may be forgotten.
  bool settled() const;

  void on(const v1::ClaimTerms& terms, Instant now);
  void on(const v1::ClaimPlacement& placement, Instant now);
  void on(const v1::PodReports& reports, const std::string& from, Instant now);
  void wake(Instant now);
  /// Its quota does not save its queue, nor the pool anything: both have it from here.
  void remind();
  /// To every process of the present attempt, once.
  void signal(int signo);

  /// Sends what is due. Returns the mono time of the next resend or hold; kNever if none.
  std::int64_t send_due(const v1::WorkloadSpec& spec, Instant now, Effects& effects);
  /// Takes what happened since the last call.
  std::vector<ClaimHappening> happened();
  /// True once after a change that has to be durable.
  bool take_dirty();
  const v1::ClaimRecord& record() const { return record_; }
  const v1::WaitReason& wait() const { return wait_; }
  /// Its code is empty unless the quota has said that it can never be placed.
  const v1::Refusal& never() const { return never_; }
  std::uint32_t index() const { return record_.index(); }
  v1::ClaimPhase phase() const { return record_.phase(); }
  bool running() const { return record_.phase() == v1::CLAIM_PHASE_RUNNING; }
  /// What its neighbours hear of the workload may have changed.
  void spec_changed() { stirred_ = true; }

 private:
  struct NodeTalk {
    Conversation conversation;
    std::string told;
  };
  bool is_present(const v1::Claim& claim, std::uint32_t attempt) const;
  ClaimHappening& happen(Happening what);
  void told_to_go(const v1::Preempt& preempt, Instant now);
  void lose_attempt(const std::string& sentence, Instant now);
  void hear_of_nodes(const v1::ClaimPlacement& placement, Instant now);
  void begin_leaving(Instant now);
  void check_bound(Instant now);
  void check_gone(Instant now);
  void next_attempt(Instant now, std::int64_t hold_ms);
  v1::ClaimDemand demand_of(const v1::WorkloadSpec& spec) const;
  v1::ClaimUse use_of(const v1::WorkloadSpec& spec) const;
  v1::PodOrders orders_of(const v1::WorkloadSpec& spec, const std::string& node) const;
  NodeTalk& talk_with(const std::string& node);
  v1::PodRecord* pod(std::uint32_t number);

  Context context_;
  v1::ClaimRecord record_;
  Conversation quota_, pool_;
  std::string demand_told_, use_told_;
  std::map<std::string, NodeTalk> nodes_;
  std::uint64_t node_version_base_ = 0;
  std::vector<ClaimHappening> happened_;
  v1::WaitReason wait_;
  v1::Refusal never_;
  std::set<std::string> refused_by_;  // since it last ran: where not to try first
  std::uint32_t refusals_ = 0;        // in a row
  std::int64_t hold_ms_ = 0;          // before it waits again
  std::int64_t hold_until_mono_ms_ = 0;
  std::set<std::string> silent_nodes_;
  int signal_ = 0;
  std::uint64_t signal_serial_ = 0;
  std::int64_t stop_after_ms_ = 0;  // for the next placement
  bool told_over_ = false;          // its end is part of what was last said
  bool dirty_ = false;
  bool stirred_ = true;        // something may have to be said
  std::int64_t next_due_ = 0;  // mono time of the next resend or hold, while not stirred
};

/// What a claim of this workload needs.
v1::Need need_of(const v1::WorkloadSpec& spec);
/// After how long without contact its nodes stop it; 0: never, it waits for its node.
std::int64_t stop_after_of(const v1::WorkloadSpec& spec, const Tuning& tuning);

}  // namespace ebb::actors
