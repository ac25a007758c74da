// The machine of one pool: the nodes of a quota tree as last seen, placement, reservations, idle
// victims, victim plans.
//
// Unit: amounts of scheduling/amount.hpp. Errors: late or repeated records are ignored; refusals to
// commands. Source: DESIGN sections 4 and 5; docs/architecture.md. Keeps I7, I9; the nodes have the
// last word on I4.
//
// Saves nothing: rebuilt from NodeState (who holds what), ClaimUse (what was handed out),
// PlaceClaim (what is wanted). Parts: pool_machine.cpp (inbox), pool_claims.cpp (a claim's
// placement, hand-out, victims), pool_nodes.cpp (nodes and holders), pool_life.cpp
// (silence, loss, drain), pool_sending.cpp (what is said
// to whom).
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/conversation.hpp"
#include "actors/machine.hpp"
#include "actors/records.hpp"
#include "scheduling/node/node_life.hpp"
#include "scheduling/placement/placement.hpp"

namespace ebb::actors {

class PoolMachine final : public Machine {
 public:
  PoolMachine(const Context& context, const std::vector<v1::Record>& records);
  void start(Instant now, Effects& effects) override;
  void handle(const v1::Envelope& envelope, Instant now, Effects& effects) override;
  void settle(Instant now, Effects& effects) override;
  void wake(Instant now, Effects& effects) override;

 private:
  using Amount = scheduling::Amount;
  using Amounts = scheduling::Amounts;
  using HolderKey = std::pair<ClaimKey, std::uint32_t>;  // claim, attempt

  struct HeldPod {
    scheduling::Place place;
    bool reserved = false;  // placed by this pool and not yet over
    bool on_node = false;   // in the node's table
  };
  struct Holder {
    scheduling::HolderId id = scheduling::kNone;
    std::map<std::uint32_t, HeldPod> pods;
    scheduling::HolderFacts facts;
    bool node_says_leaving = false;
    ClaimKey promised_to;  // plan that counts on it; empty workload: none
  };
  struct ClaimEntry {
    ClaimKey key;
    std::uint32_t attempt = 0;
    bool asked = false;  // a PlaceClaim of this attempt is known
    v1::PlaceClaim request;
    v1::ClaimUse use;  // latest; may be of an older attempt
    Conversation quota;
    Conversation workload;
    v1::AnswerState state = v1::ANSWER_STATE_UNSPECIFIED;
    v1::ClaimClass claim_class = v1::CLAIM_CLASS_UNSPECIFIED;
    bool handed = false;  // the workload has been told its places
    std::string node_type;
    std::vector<scheduling::Place> places;
    std::vector<HolderKey> victims;  // in-quota, of its plan
    v1::WaitReason wait;
    bool told_to_go = false;
    v1::Preempt preempt;
    std::set<std::string> dead_nodes;  // where its present attempt is proved to be over
    std::string told_quota, told_workload;
    bool in_use() const {
      return use.attempt() == attempt &&
             (use.phase() == v1::CLAIM_PHASE_BINDING || use.phase() == v1::CLAIM_PHASE_RUNNING ||
              use.phase() == v1::CLAIM_PHASE_LEAVING);
    }
  };
  struct NodeEntry {
    v1::NodeFacts facts;
    scheduling::NodeId id = scheduling::kNone;
    Conversation conversation;
    bool member = false;  // named by PoolTerms
    bool cordoned = false, drain = false, force = false;
    bool fenced = false;  // by the operator, and not heard since
    bool heard = false;
    std::int64_t heard_mono_ms = 0;  // or since when it should have been heard
    std::int64_t beat = 0;           // of its last word; 0: it knows no stop_after
    bool owes_answer = false;        // for that beat
    bool suspect = false, lost = false;
    bool in_service() const { return member && heard && !cordoned && !drain && !fenced && !lost; }
  };
  struct QuotaEntry {
    std::uint32_t number = 0;  // dense
    v1::QuotaFacts facts;
    Conversation conversation;
    std::string told;
  };
  /// In-quota before idle, higher priority, older.
  struct WaitKey {
    int class_rank;
    int negative_priority;
    std::int64_t since;
    ClaimKey key;
    friend auto operator<=>(const WaitKey&, const WaitKey&) = default;
  };

  /// Waiting claims that a search cannot tell apart: where the first finds nothing, the others need
  /// not look.
  struct Shape {
    std::set<WaitKey> members;
    std::vector<ClaimKey> fresh;       // not answered yet
    std::uint64_t failed_at_gain = 0;  // nothing has become freer since it failed
    v1::WaitReason wait;
  };

  // pool_machine.cpp
  void on(const v1::PlaceClaim& place, Instant now, Effects& effects);
  void on(const v1::QuotaFacts& facts, Instant now, Effects& effects);
  void on(const v1::ClaimUse& use, const std::string& from, Instant now, Effects& effects);
  void on(const v1::NodeState& state, const std::string& from, Instant now);
  void on(const v1::PoolTerms& terms, const v1::Envelope& envelope, Instant now, Effects& effects);
  void command(const v1::PoolCommand& command, const v1::Envelope& envelope, Instant now,
               Effects& effects);
  ClaimEntry& entry_of(const ClaimKey& key);
  void maybe_forget(const ClaimKey& key);

  // pool_claims.cpp
  void place_waiting(Instant now, Effects& effects);
  void in_quota_moved();
  void tell_unplaced(Shape& shape);
  bool try_place(ClaimEntry& claim, Instant now, Effects& effects);
  scheduling::PlaceRequest request_of(const ClaimEntry& claim, Instant now) const;
  scheduling::TakeRule rule_of(const v1::VictimRule& rule) const;
  bool idle_allowed(const ClaimEntry& claim, v1::WaitReason* why) const;
  void reserve(ClaimEntry& claim, const scheduling::PlaceAnswer& answer, Instant now,
               Effects& effects);
  void ask_to_go(ClaimEntry& victim, v1::PreemptReason reason, const v1::Claim& by,
                 const std::string& by_quota, const std::string& sentence, Effects& effects);
  std::map<scheduling::HolderId, std::string> why_these(
      const ClaimEntry& claim, const std::vector<scheduling::HolderId>& victims, Instant now) const;
  void drop_reservation(ClaimEntry& claim);
  void hand_out(Instant now, Effects& effects);
  void wait_for_place(ClaimEntry& claim);
  void stop_waiting(const ClaimKey& key);
  void changed(const ClaimEntry& claim) { unsettled_.insert(claim.key); }
  bool is_below(const std::string& quota, const std::string& ancestor) const;

  // pool_nodes.cpp
  void take_table(NodeEntry& node, const v1::NodeState& state);
  void check_nodes(Instant now, Effects& effects);
  void update_usable(NodeEntry& node);
  void add_to_fleet(NodeEntry& node, const std::string& name, const std::string& type,
                    const Amount& total);
  void check_health(const std::string& name, NodeEntry& node, Instant now, Effects& effects);
  void conclude_from_silence(const std::string& name, NodeEntry& node, Instant now,
                             Effects& effects);
  void drain_node(const std::string& name, NodeEntry& node, Instant now, Effects& effects);
  scheduling::DrainAnswer drain_answer(const ClaimEntry& claim, bool force, Instant now) const;
  void tell_claims_on(const NodeEntry& node);
  bool is_silent(scheduling::NodeId id) const;
  Holder& holder_of(const HolderKey& key, const scheduling::HolderFacts& facts);
  void hold_pod(const HolderKey& key, Holder& holder, const scheduling::Place& place, bool reserved,
                bool on_node);
  void let_go_pod(const HolderKey& key, std::uint32_t pod);
  void end_reservations(const ClaimKey& key, std::uint32_t before_attempt);
  void refresh_facts(const HolderKey& key, Instant now);
  scheduling::HolderFacts facts_of(const ClaimEntry& claim, Instant now) const;
  scheduling::Place place_from(const v1::PodPlace& place) const;
  bool all_nodes_heard() const;
  void gained() { ++gain_; }

  // pool_sending.cpp
  void send_due(Instant now, Effects& effects);
  void send_claim(ClaimEntry& claim, Instant now, Effects& effects);
  v1::ClaimAnswer answer_of(const ClaimEntry& claim) const;
  v1::ClaimPlacement placement_of(const ClaimEntry& claim) const;
  v1::PoolCapacity capacity() const;
  Amount in_quota_on(scheduling::NodeId node) const;
  v1::PoolView view(Instant now) const;

  Context context_;
  std::string root_quota_;
  std::string resource_type_;
  scheduling::Fleet fleet_;
  std::map<std::string, NodeEntry> nodes_;
  std::map<scheduling::NodeId, std::string> node_names_;
  std::map<std::string, QuotaEntry> quotas_;
  std::uint32_t next_quota_number_ = 0;
  std::map<ClaimKey, ClaimEntry> claims_;
  std::map<HolderKey, Holder> holders_;
  std::map<scheduling::HolderId, HolderKey> holder_keys_;
  std::map<std::string, Shape> waiting_;
  std::map<ClaimKey, std::pair<std::string, WaitKey>> waiting_keys_;  // shape, place
  std::set<ClaimKey> reserved_;   // with a reservation that has not been handed out
  std::set<ClaimKey> unsettled_;  // whose records changed or are not echoed yet
  std::set<std::string> nodes_unsettled_;
  std::set<HolderKey> spared_;  // holders that may not be taken yet
  Conversation tenant_;
  bool terms_known_ = false;
  bool known_ = false;  // all nodes heard, or waited for long enough
  std::int64_t started_mono_ms_ = 0;
  std::int64_t next_check_mono_ms_ = 0;
  std::int64_t last_check_mono_ms_ = 0;
  std::uint64_t gain_ = 1;  // rises whenever something may have become freer
  bool capacity_changed_ = true;
  std::int64_t now_mono_ms_ = 0;        // of the call at hand
  std::int64_t idle_from_mono_ms_ = 0;  // before this no idle claim is placed
  std::int64_t idle_held_since_mono_ms_ = 0;
  std::uint64_t version_base_ = 0;  // highest version of conversations that were forgotten
};

}  // namespace ebb::actors
