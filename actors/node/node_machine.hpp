// The machine of one node: its GPU slots and which pod holds each. The last word on what runs.
//
// Unit: milliseconds; grace periods on the steady clock. Errors: a bind that cannot be is answered
// with REFUSED and a sentence; late, repeated and foreign messages are ignored. Source: DESIGN
// sections 4 and 5, RELIABILITY.md 1.2. Keeps R6 (saved before told), R7 (released attempts are
// remembered), R8 (a slot is free when the launcher has proved the group empty), R10 (what is older
// is ignored), I4.
//
// Parts: node_machine.cpp (inbox, life), node_pods.cpp (orders and process reports, pod by pod),
// node_sending.cpp (what is said to whom). Orders to the launcher are sent once, in order; after a
// restart the node probes.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/conversation.hpp"
#include "actors/machine.hpp"
#include "actors/node/node_slots.hpp"
#include "actors/node/node_states.hpp"
#include "actors/records.hpp"
#include "scheduling/node/node_life.hpp"

namespace ebb::actors {

/// For pods that must leave without a word about their grace.
inline constexpr std::int64_t kGraceUnsaidMs = 30'000;
/// Claims that are over and still remembered, counted at a start.
inline constexpr std::size_t kTombstonesMax = 10'000;

class NodeMachine final : public Machine {
 public:
  /// Records: "node/NAME" with its NodeFacts first, then "#life" and one part for each claim.
  NodeMachine(const Context& context, const std::vector<v1::Record>& records);
  void start(Instant now, Effects& effects) override;
  void handle(const v1::Envelope& envelope, Instant now, Effects& effects) override;
  void settle(Instant now, Effects& effects) override;
  void wake(Instant now, Effects& effects) override;

 private:
  using PodId = std::pair<std::uint32_t, std::uint32_t>;  // attempt, rank
  struct Pod {
    v1::PodOrder order;
    v1::PodReport report;
    std::int64_t leave_by_wall_ms = 0;
    std::int64_t kill_at_mono_ms = kNever;
    v1::PodState state() const { return report.state(); }
    bool holds_slot() const { return !is_over(report.state()); }
  };
  struct ClaimEntry {
    v1::NodePodRecord head;  // without pods
    std::map<PodId, Pod> pods;
    Conversation workload;
    bool unsaved = false;
    bool untold = false;  // implies unsaved
    void change() { unsaved = untold = true; }
    bool holds_slot() const;
  };

  // node_machine.cpp
  void on(const v1::NodeTerms& terms, const std::string& from, Instant now, Effects& effects);
  void on(const v1::LastContact& contact);
  void on(const v1::NodeBinding& binding);
  void on(const v1::GpuHealth& health, Effects& effects);
  void end_all_after_reboot(Instant now);
  void drop_old_tombstones(Effects& effects);
  ClaimEntry& entry_of(const ClaimKey& key);
  void save(const ClaimKey& key, ClaimEntry& entry, Instant now, Effects& effects);
  void release_if_known(const ClaimKey& key, ClaimEntry& entry, Instant now, Effects& effects);

  // node_pods.cpp
  void on(const v1::PodOrders& orders, const std::string& from, Instant now, Effects& effects);
  void begin_attempt(const ClaimKey& key, ClaimEntry& entry, std::uint32_t attempt, Instant now,
                     Effects& effects);
  void obey(const ClaimKey& key, ClaimEntry& entry, const v1::PodOrder& order, Instant now,
            Effects& effects);
  Pod& bind(const ClaimKey& key, ClaimEntry& entry, const v1::PodOrder& order, Effects& effects);
  std::string why_not_bound_here(const ClaimKey& key, const ClaimEntry& entry,
                                 const v1::PodOrder& order) const;
  void run(const ClaimKey& key, ClaimEntry& entry, PodId id, Pod& pod, const v1::PodOrder& order,
           Instant now, Effects& effects);
  void leave(const ClaimKey& key, ClaimEntry& entry, PodId id, Pod& pod, std::int64_t grace_ms,
             Instant now, Effects& effects);
  void resume_leaving(const ClaimKey& key, PodId id, Pod& pod, Instant now, Effects& effects);
  void kill_overdue(const ClaimKey& key, ClaimEntry& entry, Instant now, Effects& effects);
  std::int64_t stop_what_is_cut_off(Instant now, Effects& effects);
  void on(const v1::ProcessReport& report, Instant now, Effects& effects);
  /// False: the event is late and changes nothing.
  bool step(ClaimEntry& entry, Pod& pod, PodEvent event);
  void over(const ClaimKey& key, PodId id, Pod& pod, Instant now, Effects& effects);

  // node_sending.cpp
  void send_probe(Effects& effects) const;
  void send_launch(const ClaimKey& key, const ClaimEntry& entry, PodId id, const Pod& pod,
                   Effects& effects) const;
  void send_signal(const ClaimKey& key, PodId id, int signo, bool leave, Effects& effects) const;
  void send_kill(const ClaimKey& key, PodId id, Effects& effects) const;
  void send_forget(const ClaimKey& key, PodId id, Effects& effects) const;
  void send_reports(const ClaimKey& key, ClaimEntry& entry, Instant now, Effects& effects);
  std::int64_t send_state(Instant now, Effects& effects);
  v1::NodeState state() const;
  NodeUse use() const;
  v1::LauncherInbox& to_launcher(Effects& effects) const;
  std::string record_key(const ClaimKey& key) const;

  const Context context_;
  const std::string name_;
  v1::NodeFacts facts_;
  v1::NodeLifeRecord life_;
  bool life_changed_ = false;
  bool table_changed_ = false;  // what NodeState shows
  std::map<ClaimKey, ClaimEntry> claims_;
  std::set<ClaimKey> holders_;  // with a pod that holds a slot
  std::set<ClaimKey> busy_;     // to be saved or told, or with a pod on its way out
  Conversation tenant_;
  std::map<std::string, Conversation>
      pools_;  // by address: a node that comes back goes on counting
  std::int64_t heartbeat_at_mono_ms_ = 0;
  // When its pool has heard it for certain. Unknown after a start until the launcher or the pool
  // tells: then only the shims stop what is cut off.
  std::optional<std::int64_t> contact_mono_ms_;
};

}  // namespace ebb::actors
