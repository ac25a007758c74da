// The machine of one quota: its account, its queue, its edge to the parent and to each child.
//
// Unit: Amounts by node type. Errors: refusals to commands; late or repeated records are ignored.
// Source: DESIGN sections 4 and 5; docs/architecture.md. Keeps I1, I2, I8, I11.
//
// Saves `QuotaRecord` (both edge totals) and one `ChargeRecord` a charged claim. The queue is not
// saved: workloads repeat their demand. Parts: quota_machine.cpp (inbox, records),
// quota_sending.cpp (what is said to whom), quota_admission.cpp (queue and charges),
// quota_edges.cpp (giving, recalling, returning), quota_commands.cpp (create, scale, update, ...).
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/conversation.hpp"
#include "actors/machine.hpp"
#include "actors/records.hpp"
#include "scheduling/quota/ledger.hpp"
#include "scheduling/quota/queue.hpp"
#include "scheduling/quota/recall.hpp"

namespace ebb::actors {

class QuotaMachine final : public Machine {
 public:
  QuotaMachine(const Context& context, const std::vector<v1::Record>& records);
  void start(Instant now, Effects& effects) override;
  void handle(const v1::Envelope& envelope, Instant now, Effects& effects) override;
  void settle(Instant now, Effects& effects) override;
  void wake(Instant now, Effects& effects) override;
  /// A pool saves nothing: it has from here which quotas there are and what they ask for.
  void remind(Instant now) override;

 private:
  using Amount = scheduling::Amount;
  using Amounts = scheduling::Amounts;

  /// Where a claim stands in this quota's own books.
  enum class Stage {
    Queued,    // waits
    Planning,  // the pool is looking for a placement; nothing is charged
    Planned,   // the pool has reserved one; victims are on their way, the charge follows when free
               // covers it
    Charged,   // counted in `used`, saved
  };
  struct Charge {
    std::uint32_t attempt = 0;
    std::string node_type;
    Amount amount;
  };
  struct ClaimState {
    ClaimKey key;
    std::uint32_t attempt = 0;
    v1::ClaimPhase phase = v1::CLAIM_PHASE_UNSPECIFIED;  // unspecified: known from its charge alone
    v1::Need need;
    Amount amount;  // of the whole need
    v1::ClaimClass held_class = v1::CLAIM_CLASS_UNSPECIFIED;
    std::string held_type;
    std::int64_t since_wall_ms = 0;
    std::int64_t started_wall_ms = 0;
    std::string workspace, user;

    Stage stage = Stage::Queued;
    Charge charge;               // with Charged
    std::string plan_type;       // with Planning and Planned
    Amount must_free;            // asked of victims
    bool takes_victims = false;  // the plan may take in-quota victims
    std::vector<v1::VictimRef> plan_victims;
    std::map<std::string, scheduling::Due> plan_dues;  // booked for the plan, by child
    Amounts borrowed;  // same-level: held beyond the guarantee for this claim
    bool plan_refused =
        false;              // its plan did not cover it: the pool drops it before it is asked anew
    bool unplaced = false;  // charged once and not placed: placed first, next time, charged then
    bool idle_asked = false;
    v1::ClaimAnswer answer;        // latest of the pool for this attempt
    bool preempted = false;        // told to go, as `preempt` says
    bool counted_leaving = false;  // its charge is part of leaving_
    v1::Preempt preempt;
    v1::WaitReason wait;  // as of the last walk of the queue
    v1::WaitReason
        wait_told;  // what the workload knows: renewed when the code changes, not with each number

    Conversation workload;
    Conversation pool;
    std::string told_workload, told_pool;  // last record without header, to see whether it changed
    bool waiting() const { return phase == v1::CLAIM_PHASE_WAITING; }
    bool holds() const {
      return phase == v1::CLAIM_PHASE_BINDING || phase == v1::CLAIM_PHASE_RUNNING ||
             phase == v1::CLAIM_PHASE_LEAVING;
    }
  };
  struct Edge {
    std::string id, name;
    std::uint64_t epoch = 1;
    Amounts guarantee, given, returned_seen;
    bool preempt_above_guarantee = false;  // scaled with leave to evict
    bool closing = false;
    Conversation conversation;
    Amounts used, guaranteed_below, wanted;  // as last heard
    std::vector<v1::Demand> demand;
    std::uint32_t claims = 0, children = 0;
    std::map<std::string, scheduling::Due, std::less<>> due;  // by node type
    std::string told;
    v1::Envelope delete_request;  // answered when the edge has ended
    Amounts booked() const { return given - returned_seen; }
  };
  /// Order of the queue: priority that orders (higher first), place in time, key.
  struct QueueKey {
    int negative_priority;
    std::int64_t since;
    ClaimKey key;
    friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
  };

  // quota_machine.cpp
  void on(const v1::ParentTerms& terms);
  void on(const v1::ChildClaims& claims, Instant now, Effects& effects);
  void on(const v1::ClaimDemand& demand, const std::string& from, Instant now, Effects& effects);
  void on(const v1::ClaimAnswer& answer, Instant now, Effects& effects);
  void on(const v1::PoolCapacity& capacity, Instant now, Effects& effects);
  void book_same_level();
  void take_plan(ClaimState& claim, const v1::ClaimAnswer& answer, Effects& effects);
  void end(Effects& effects);
  void save_record(Effects& effects);
  bool is_root() const { return spec_.parent_id().empty(); }

  // quota_sending.cpp
  void send_due(Instant now, Effects& effects);
  void send_claim(ClaimState& claim, Instant now, Effects& effects);
  void send_facts(Instant now, Effects& effects);
  void send_last_word(const v1::ChildClaims& claims, Instant now, Effects& effects);
  void echo_gone(const v1::ClaimDemand& demand, Instant now, Effects& effects);
  v1::PlaceClaim place_claim_of(const ClaimState& claim) const;
  v1::ClaimTerms terms_of(const ClaimState& claim) const;
  v1::ParentTerms parent_terms_of(const Edge& edge) const;
  v1::ChildClaims child_claims() const;
  v1::QuotaFacts quota_facts() const;
  void changed(const ClaimState& claim) { unsettled_.insert(claim.key); }

  // quota_admission.cpp
  void admit(Instant now, Effects& effects);
  /// False: blocked, and with it every claim of its shape.
  bool admit_one(ClaimState& claim, scheduling::QueueWalk& walk, Instant now, Effects& effects);
  void ask_for_idle(ClaimState& claim);
  void set_stage(ClaimState& claim, Stage stage);
  void ask_for_place(ClaimState& claim, const std::string& type);
  bool ask_for_plan(ClaimState& claim, const std::vector<std::string>& types);
  void charge_planned(Instant now, Effects& effects);
  void charge(ClaimState& claim, const std::string& type, Effects& effects);
  void uncharge(ClaimState& claim, Effects& effects);
  void drop_plan(ClaimState& claim);
  void requeue(ClaimState& claim, std::int64_t wall_ms);
  void unqueue(const ClaimState& claim);
  void age_queue(std::int64_t wall_ms);
  std::vector<std::string> types_for(const ClaimState& claim) const;
  Amount available(std::string_view type) const;
  Amount pot(std::string_view type) const;
  bool may_take_below(const ClaimState& claim) const;
  bool may_take_same_level(const ClaimState& claim) const;
  bool could_ever_hold(const ClaimState& claim) const;
  v1::WaitReason quota_reason(const ClaimState& claim) const;
  void set_wait(ClaimState& claim, v1::WaitReason wait);

  // quota_edges.cpp
  void return_to_parent(Effects& effects);
  void recall_from_children();
  void give_to_children();
  std::vector<v1::VictimRef> victims_to_pass_on();
  void evict_listed(Effects& effects);
  Amount choose_victims(const std::string& type, Amount lack, Effects& effects);
  /// Answers what it booked on each edge.
  std::map<std::string, scheduling::Due> book_dues(const std::string& type, const Amount& amount,
                                                   const std::vector<v1::VictimRef>& victims,
                                                   const std::string& sparing = {});
  Amount due_sum(std::string_view type) const;
  Amount promised(std::string_view type) const;
  Amounts wanted() const;
  void lend_between_children(const std::string& type);
  Amount owed_to_children(std::string_view type) const;
  Amounts level_of(const Edge& edge) const;
  std::string branch_of(const std::string& quota_id) const;
  scheduling::Account account(std::string_view type) const;
  Amounts used_in_subtree() const;
  std::vector<std::string> node_types() const;
  bool tell_to_go(ClaimState& claim, v1::PreemptReason reason, const v1::Claim& by,
                  const std::string& by_quota, const std::string& sentence, Effects& effects);

  // quota_commands.cpp
  void command(const v1::QuotaCommand& command, const v1::Envelope& envelope, Instant now,
               Effects& effects);
  void create_child(v1::QuotaSpec spec, const v1::Envelope& envelope, Effects& effects);
  void scale_children(const v1::ScaleQuotas& scale, const v1::Envelope& envelope, Effects& effects);
  void scale_root(const v1::ScaleQuotas& scale, const v1::Envelope& envelope, Effects& effects);
  void update(const v1::QuotaSpec& spec, const v1::Envelope& envelope, Instant now,
              Effects& effects);
  void delete_child(const std::string& id, const v1::Envelope& envelope, Effects& effects);
  void close(const v1::Envelope& envelope, Effects& effects);
  v1::QuotaView view() const;

  Context context_;
  v1::QuotaSpec spec_;
  scheduling::QueuePolicy policy_ = scheduling::QueuePolicy::Intelligent;
  Amounts guarantee_;

  // Edge to the parent.
  Conversation parent_;
  std::uint64_t edge_epoch_ = 1;
  Amounts given_seen_, returned_total_;
  Amounts frozen_;   // root: of the holding, what lies on nodes that are cordoned or lost
  Amounts holding_;  // root: live capacity; else given_seen_ - returned_total_
  Amounts hold_at_most_;
  bool may_evict_ = false;
  bool closing_ = false;
  v1::VictimFilter filter_;
  v1::PreemptReason recall_reason_ = v1::PREEMPT_REASON_QUOTA_SCALED;
  std::vector<v1::VictimRef> recall_victims_;
  std::set<std::string> recall_booked_;  // of these, passed on to children already
  std::string told_parent_;

  std::map<std::string, Edge> children_;
  std::map<std::string, std::string>
      branches_;  // quota id below -> child id, learned from victims and claims
  std::map<ClaimKey, ClaimState> claims_;
  /// Claims that are not charged and want to be, by shape: where the first of a shape is blocked,
  /// the others of it are too, so a walk looks at one of each.
  std::map<std::string, std::set<QueueKey>> queue_;
  std::set<ClaimKey>
      queue_planning_;  // asked the pool for a plan with victims and not answered yet: one at most
  std::map<ClaimKey, std::pair<std::string, QueueKey>> queue_keys_;  // shape, place
  std::set<ClaimKey>
      fresh_;  // touched since the last walk: looked at even behind others of their shape
  std::set<ClaimKey> planning_;    // stage Planning
  std::set<ClaimKey> borrowers_;   // with something borrowed at the same level
  bool walk_due_ = true;           // something changed that a walk of the queue may act on
  std::vector<ClaimKey> planned_;  // stage Planned, oldest first
  std::set<ClaimKey>
      plans_;  // with victims asked or to be asked: from Planned until it binds or is dropped
  bool same_level_active_ = false;  // a child's claim has victims among its siblings
  std::set<std::string> same_level_booked_;
  Amounts used_;     // sum of charges
  Amounts leaving_;  // of used_, told to go

  Conversation pool_;  // QuotaFacts / PoolCapacity
  std::string told_pool_;
  std::vector<v1::NodeTypeFacts> node_type_facts_;
  std::int64_t next_aging_mono_ms_ = 0;
  bool dirty_record_ = false;
  bool over_ = false;  // its edge has ended: it is erased once the pool has heard of that
  bool ended_ = false;
  std::uint64_t version_base_ = 0;  // highest version of conversations that were forgotten
  std::set<ClaimKey> unsettled_;    // claims whose records changed or are not echoed yet
};

}  // namespace ebb::actors
