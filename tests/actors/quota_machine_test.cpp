#include "actors/quota/quota_machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace ebb::actors;  // NOLINT
namespace v1 = ebb::v1;
using ebb::Instant;
using ebb::scheduling::Amounts;

namespace {

Amounts gpus(std::int64_t count) { return {{"a100", {.gpu_milli = count * 1000}}}; }

v1::QuotaSpec a_quota(const std::string& id, const std::string& parent, std::int64_t guarantee) {
  v1::QuotaSpec spec;
  spec.set_quota_id(id);
  spec.set_name(id);
  spec.set_parent_id(parent);
  spec.set_pool("pool/q1");
  spec.set_root_id("q1");
  set(spec.mutable_guarantee(), gpus(guarantee));
  return spec;
}

v1::Record record_of(const v1::QuotaRecord& body) {
  v1::Record record;
  record.set_key("quota/" + body.spec().quota_id());
  record.set_kind("QuotaRecord");
  body.SerializeToString(record.mutable_body());
  return record;
}

/// A quota machine with hand-written neighbours: each keeps its own side of the conversation.
class Bench {
 public:
  explicit Bench(v1::QuotaRecord saved, std::vector<v1::Record> parts = {})
      : machine_({"quota/" + saved.spec().quota_id(), 1},
                 with(record_of(saved), std::move(parts))) {
    Effects effects;
    machine_.start({}, effects);
    note(effects);
  }
  /// Its root holds `count` GPUs.
  Bench& capacity(std::int64_t count) {
    v1::Envelope envelope;
    v1::PoolCapacity* capacity = envelope.mutable_quota()->mutable_pool_capacity();
    capacity->set_known(true);
    set(capacity->mutable_live(), gpus(count));
    return say("pool/q1", "facts", capacity->mutable_header(), envelope);
  }
  Bench& demand(const std::string& job, std::uint32_t attempt, v1::ClaimPhase phase,
                std::int64_t gpu_count, int priority = 5,
                v1::IdleMode idle = v1::IDLE_MODE_FORBIDDEN) {
    v1::Envelope envelope;
    v1::ClaimDemand* demand = envelope.mutable_quota()->mutable_claim_demand();
    demand->mutable_claim()->set_workload(job);
    demand->set_attempt(attempt);
    demand->set_phase(phase);
    demand->mutable_need()->set_priority(priority);
    demand->mutable_need()->set_product(v1::PRODUCT_JOB);
    demand->mutable_need()->set_idle(idle);
    v1::PodShape* shape = demand->mutable_need()->add_shapes();
    shape->set_pods(1);
    shape->mutable_each()->set_gpu_milli(gpu_count * 1000);
    return say(job, "demand", demand->mutable_header(), envelope);
  }
  Bench& answer(const std::string& job, std::uint32_t attempt, v1::AnswerState state,
                std::vector<v1::VictimRef> victims = {}) {
    v1::Envelope envelope;
    v1::ClaimAnswer* answer = envelope.mutable_quota()->mutable_claim_answer();
    answer->mutable_claim()->set_workload(job);
    answer->set_attempt(attempt);
    answer->set_state(state);
    answer->set_claim_class(v1::CLAIM_CLASS_IN_QUOTA);
    answer->set_node_type("a100");
    for (const v1::VictimRef& victim : victims) *answer->add_victims() = victim;
    return say("pool/q1", job, answer->mutable_header(), envelope);
  }
  Bench& terms(std::int64_t guarantee, std::int64_t given, std::int64_t hold_at_most,
               std::uint64_t edge_epoch = 1) {
    v1::Envelope envelope;
    v1::ParentTerms* terms = envelope.mutable_quota()->mutable_parent_terms();
    terms->set_edge_epoch(edge_epoch);
    set(terms->mutable_guarantee(), gpus(guarantee));
    set(terms->mutable_given_total(), gpus(given));
    set(terms->mutable_hold_at_most(), gpus(hold_at_most));
    return say("quota/parent", "terms", terms->mutable_header(), envelope);
  }
  /// Terms with which the parent passes a plan's victims on.
  Bench& recall(std::int64_t guarantee, std::int64_t given, std::int64_t hold_at_most,
                const std::vector<v1::VictimRef>& victims) {
    v1::Envelope envelope;
    v1::ParentTerms* terms = envelope.mutable_quota()->mutable_parent_terms();
    terms->set_edge_epoch(1);
    set(terms->mutable_guarantee(), gpus(guarantee));
    set(terms->mutable_given_total(), gpus(given));
    set(terms->mutable_hold_at_most(), gpus(hold_at_most));
    terms->set_may_evict(true);
    terms->mutable_filter()->set_priority_at_most(9);
    terms->set_reason(v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION);
    for (const v1::VictimRef& victim : victims) *terms->add_victims() = victim;
    return say("quota/parent", "terms", terms->mutable_header(), envelope);
  }
  Bench& claims(const std::string& child, std::int64_t given_seen, std::int64_t returned,
                std::int64_t used, std::int64_t wanted = 0) {
    v1::Envelope envelope;
    v1::ChildClaims* claims = envelope.mutable_quota()->mutable_child_claims();
    claims->set_child(child);
    claims->set_edge_epoch(1);
    set(claims->mutable_given_seen(), gpus(given_seen));
    set(claims->mutable_returned_total(), gpus(returned));
    set(claims->mutable_used(), gpus(used));
    set(claims->mutable_wanted(), gpus(wanted));
    claims->add_quotas_below(child);
    return say("quota/" + child, child, claims->mutable_header(), envelope);
  }
  v1::Reply command(v1::QuotaCommand command) {
    v1::Envelope envelope;
    envelope.set_from("gateway/g");
    envelope.set_correlation_id("c1");
    *envelope.mutable_quota()->mutable_command() = std::move(command);
    handle(envelope);
    return reply;
  }
  v1::QuotaView view() {
    v1::QuotaCommand describe;
    describe.set_describe(true);
    v1::QuotaView view;
    view.ParseFromString(command(describe).body());
    return view;
  }

  // What it said last, to whom.
  std::map<std::string, v1::PlaceClaim> placed;
  std::map<std::string, v1::ParentTerms> terms_to;
  std::map<std::string, v1::ClaimTerms> told;
  v1::ChildClaims claims_up;
  v1::Reply reply;
  v1::QuotaRecord saved;
  std::map<std::string, v1::ChargeRecord> charges;
  std::vector<std::string> births;
  Effects last;

 private:
  static std::vector<v1::Record> with(v1::Record own, std::vector<v1::Record> parts) {
    parts.insert(parts.begin(), std::move(own));
    return parts;
  }
  Bench& say(const std::string& from, const std::string& topic, v1::Header* header,
             v1::Envelope& envelope) {
    Conversation& side = sides_[from + " " + topic];
    side.touch();
    side.stamp(header, 0);
    // The neighbours here have always heard the latest.
    header->mutable_seen()->set_epoch(1);
    header->mutable_seen()->set_version(heard_[topic]);
    envelope.set_from(from);
    handle(envelope);
    return *this;
  }
  void handle(const v1::Envelope& envelope) {
    Effects effects;
    machine_.handle(envelope, {.mono_ms = ++now_, .wall_ms = now_}, effects);
    machine_.settle({.mono_ms = now_, .wall_ms = now_}, effects);
    note(effects);
  }
  void note(const Effects& effects) {
    for (const v1::Record& record : effects.saves) {
      if (record.kind() == "QuotaRecord") saved.ParseFromString(record.body());
      if (record.kind() != "ChargeRecord") continue;
      const std::string job = record.key().substr(record.key().find('#') + 1);
      if (record.erased()) {
        charges.erase(job);
      } else {
        charges[job].ParseFromString(record.body());
      }
    }
    for (const v1::Record& record : effects.births) births.push_back(record.key());
    for (const v1::Envelope& sent : effects.sends) {
      if (sent.has_reply()) reply = sent.reply();
      if (sent.pool().has_place_claim()) {
        const v1::PlaceClaim& place = sent.pool().place_claim();
        placed[place.claim().workload()] = place;
        heard_[place.claim().workload()] = place.header().stamp().version();
      }
      if (sent.quota().has_parent_terms()) {
        terms_to[sent.to()] = sent.quota().parent_terms();
        heard_[sent.to().substr(6)] = sent.quota().parent_terms().header().stamp().version();
      }
      if (sent.quota().has_child_claims()) claims_up = sent.quota().child_claims();
      if (sent.workload().has_claim_terms()) told[sent.to()] = sent.workload().claim_terms();
    }
    last = effects;
  }
  QuotaMachine machine_;
  std::map<std::string, Conversation> sides_;
  std::map<std::string, std::uint64_t> heard_;
  std::int64_t now_ = 0;
};

v1::QuotaRecord root(std::int64_t guarantee, bool child_preemption = false) {
  v1::QuotaRecord record;
  *record.mutable_spec() = a_quota("q1", "", guarantee);
  record.mutable_spec()->set_child_preemption(child_preemption);
  record.mutable_spec()->mutable_child_filter()->set_priority_at_most(9);
  record.mutable_spec()->mutable_child_filter()->add_products(v1::PRODUCT_JOB);
  return record;
}
v1::QuotaRecord child() {
  v1::QuotaRecord record;
  *record.mutable_spec() = a_quota("q11", "parent", 48);
  record.set_edge_epoch(1);
  return record;
}
void add_child(v1::QuotaRecord& record, const std::string& id, std::int64_t guarantee,
               std::int64_t given) {
  v1::QuotaRecord::Edge* edge = record.add_children();
  edge->set_quota_id(id);
  edge->set_name(id);
  edge->set_edge_epoch(1);
  set(edge->mutable_guarantee(), gpus(guarantee));
  set(edge->mutable_given_total(), gpus(given));
}
v1::VictimRef victim(const std::string& job, const std::string& quota, std::int64_t count) {
  v1::VictimRef ref;
  ref.mutable_claim()->set_workload(job);
  ref.set_attempt(1);
  ref.set_quota(quota);
  ref.set_node_type("a100");
  ref.mutable_amount()->set_gpu_milli(count * 1000);
  return ref;
}
std::int64_t gpu_count(const google::protobuf::RepeatedPtrField<v1::TypedAmount>& list) {
  return amounts_of(list)["a100"].gpu_milli / 1000;
}
}  // namespace

TEST_CASE("quota machine: the charge is saved in the same step that asks the pool to place (R6)") {
  Bench bench(root(16));
  bench.capacity(16).demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 8);
  REQUIRE(bench.charges.count("job/a/0") == 1);
  CHECK(bench.charges["job/a/0"].amount().gpu_milli() == 8'000);
  CHECK(bench.placed["job/a"].want() == v1::PLACE_WANT_PLACE);
  const auto saves = std::count_if(bench.last.saves.begin(), bench.last.saves.end(),
                                   [](const v1::Record& r) { return r.kind() == "ChargeRecord"; });
  CHECK(saves == 1);
}

TEST_CASE("quota machine: one that is not covered waits and the reason has the numbers") {
  Bench bench(root(16));
  bench.capacity(16).demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 8);
  bench.demand("job/b", 1, v1::CLAIM_PHASE_WAITING, 12);
  CHECK(bench.charges.size() == 1);
  CHECK(bench.placed.count("job/b") == 0);
  CHECK(bench.told["job/b"].wait().code() == v1::WAIT_CODE_QUOTA);
  CHECK(bench.told["job/b"].wait().sentence() ==
        "quota q1 has 8 of 16 GPUs free, the pod needs 12");
}

TEST_CASE(
    "quota machine: the charge ends when the workload's next attempt says the old one is gone") {
  Bench bench(root(16));
  bench.capacity(16).demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 16);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_LEAVING, 16);
  CHECK(bench.charges["job/a/0"].attempt() == 1);  // a signal was sent, nothing more
  bench.demand("job/b", 1, v1::CLAIM_PHASE_WAITING, 16, 9);
  CHECK(bench.charges.count("job/b/0") == 0);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_GONE, 16);
  CHECK(bench.charges.count("job/a/0") == 0);
  CHECK(bench.charges.count("job/b/0") == 1);
}

TEST_CASE("quota machine: a gang that finds no nodes gives its charge back and lets others pass") {
  Bench bench(root(16));
  bench.capacity(16).demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 16);
  bench.answer("job/a", 1, v1::ANSWER_STATE_UNPLACED);
  CHECK(bench.charges.empty());
  CHECK(bench.placed["job/a"].want() == v1::PLACE_WANT_PLAN);
  bench.demand("job/b", 1, v1::CLAIM_PHASE_WAITING, 8);
  CHECK(bench.charges.count("job/b/0") == 1);
  // The pool finds a place again, but the quota no longer covers it: nothing is kept reserved.
  bench.answer("job/a", 1, v1::ANSWER_STATE_PLANNED);
  CHECK(bench.charges.count("job/a/0") == 0);
}

TEST_CASE("quota machine: terms that come twice return once, saved before they are told (R3)") {
  Bench bench(child());
  bench.terms(48, 48, 48);
  CHECK(gpu_count(bench.view().holding()) == 48);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 30);
  bench.terms(48, 48, 40);
  CHECK(gpu_count(bench.claims_up.returned_total()) == 8);
  CHECK(gpu_count(bench.saved.returned_total()) == 8);
  bench.terms(48, 48, 40);
  CHECK(gpu_count(bench.claims_up.returned_total()) == 8);
  CHECK(gpu_count(bench.view().holding()) == 40);
}

TEST_CASE("quota machine: totals merge by max, an older total takes nothing away (R1)") {
  Bench bench(child());
  bench.terms(48, 48, 48);
  bench.terms(48, 40, 48);
  CHECK(gpu_count(bench.view().holding()) == 48);
}

TEST_CASE("quota machine: terms of an older edge epoch are ignored (R10)") {
  Bench bench(child());
  bench.terms(48, 20, 48, 2);
  bench.terms(48, 48, 48, 1);
  CHECK(gpu_count(bench.view().holding()) == 20);
}

TEST_CASE("quota machine: a parent gives up to the guarantee and saves it before telling (R2)") {
  v1::QuotaRecord record = root(128);
  add_child(record, "q11", 48, 0);
  add_child(record, "q12", 80, 0);
  Bench bench(record);
  bench.capacity(128);
  CHECK(gpu_count(bench.terms_to["quota/q11"].given_total()) == 48);
  CHECK(gpu_count(bench.terms_to["quota/q12"].given_total()) == 80);
  REQUIRE(bench.saved.children_size() == 2);
  CHECK(gpu_count(bench.saved.children(0).given_total()) == 48);
}

TEST_CASE("quota machine: a parent's claim takes unused units first and evicts nobody for them") {
  v1::QuotaRecord record = root(128, true);
  add_child(record, "q11", 48, 48);
  add_child(record, "q12", 80, 80);
  Bench bench(record);
  bench.capacity(128).claims("q11", 48, 0, 40).claims("q12", 80, 0, 80);
  bench.demand("service/s", 0, v1::CLAIM_PHASE_WAITING, 8, 9);
  REQUIRE(bench.placed["service/s"].want() == v1::PLACE_WANT_PLAN);
  CHECK(bench.placed["service/s"].must_free().gpu_milli() == 0);
  bench.answer("service/s", 0, v1::ANSWER_STATE_PLANNED);
  CHECK(gpu_count(bench.terms_to["quota/q11"].hold_at_most()) == 40);
  CHECK(gpu_count(bench.terms_to["quota/q12"].hold_at_most()) == 80);
  bench.claims("q11", 48, 8, 40);
  CHECK(bench.charges.count("service/s/0") == 1);
  CHECK(bench.placed["service/s"].want() == v1::PLACE_WANT_PLACE);
  // R4: what spends the returned units is saved together with the return it rests on.
  CHECK(gpu_count(bench.saved.children(0).returned_seen()) == 8);
}

TEST_CASE(
    "quota machine: child-level preemption lowers the level by the victims and waits for the "
    "return") {
  v1::QuotaRecord record = root(128, true);
  add_child(record, "q11", 48, 48);
  add_child(record, "q12", 80, 80);
  Bench bench(record);
  bench.capacity(128).claims("q11", 48, 0, 48).claims("q12", 80, 0, 80);
  bench.demand("service/s", 0, v1::CLAIM_PHASE_WAITING, 4, 9);
  REQUIRE(bench.placed["service/s"].rules_size() == 1);
  CHECK(bench.placed["service/s"].must_free().gpu_milli() == 4'000);
  CHECK(bench.placed["service/s"].rules(0).descendants());
  bench.answer("service/s", 0, v1::ANSWER_STATE_PLANNED, {victim("job/t", "q12", 8)});
  const v1::ParentTerms& terms = bench.terms_to["quota/q12"];
  CHECK(gpu_count(terms.hold_at_most()) == 72);  // the victim goes as a whole
  CHECK(terms.may_evict());
  REQUIRE(terms.victims_size() == 1);
  CHECK(terms.victims(0).claim().workload() == "job/t");
  CHECK(terms.filter().priority_at_most() == 9);
  CHECK(gpu_count(bench.terms_to["quota/q11"].hold_at_most()) == 48);
  CHECK(bench.charges.empty());
  bench.claims("q12", 80, 8, 72);
  CHECK(bench.charges.count("service/s/0") == 1);
  // What the victim held and the claim does not need goes back up to the guarantee.
  CHECK(gpu_count(bench.terms_to["quota/q12"].given_total()) == 84);
}

TEST_CASE("quota machine: with the switch off a parent's claim takes nothing from children") {
  v1::QuotaRecord record = root(128, false);
  add_child(record, "q11", 48, 48);
  add_child(record, "q12", 80, 80);
  Bench bench(record);
  bench.capacity(128).claims("q11", 48, 0, 0).claims("q12", 80, 0, 0);
  bench.demand("service/s", 0, v1::CLAIM_PHASE_WAITING, 4, 9);
  CHECK(bench.charges.empty());
  CHECK(bench.placed.count("service/s") == 0);
  CHECK(gpu_count(bench.terms_to["quota/q11"].hold_at_most()) == 48);
}

TEST_CASE("quota machine: a withdrawn claim lifts what its plan had asked of children") {
  v1::QuotaRecord record = root(128, true);
  add_child(record, "q11", 48, 48);
  add_child(record, "q12", 80, 80);
  Bench bench(record);
  bench.capacity(128).claims("q11", 48, 0, 48).claims("q12", 80, 0, 80);
  bench.demand("service/s", 0, v1::CLAIM_PHASE_WAITING, 4, 9);
  bench.answer("service/s", 0, v1::ANSWER_STATE_PLANNED, {victim("job/t", "q12", 8)});
  CHECK(gpu_count(bench.terms_to["quota/q12"].hold_at_most()) == 72);
  bench.demand("service/s", 0, v1::CLAIM_PHASE_GONE, 4, 9);
  CHECK(gpu_count(bench.terms_to["quota/q12"].hold_at_most()) == 80);
  CHECK(bench.terms_to["quota/q12"].victims_size() == 0);
}

TEST_CASE("quota machine: scaling two children is one change; units move as they come free") {
  v1::QuotaRecord record = root(128);
  add_child(record, "q11", 48, 48);
  add_child(record, "q12", 80, 80);
  Bench bench(record);
  bench.capacity(128).claims("q11", 48, 0, 48).claims("q12", 80, 0, 76);
  v1::QuotaCommand scale;
  for (const auto& [id, count] : {std::pair{"q11", 56}, std::pair{"q12", 72}}) {
    auto* one = scale.mutable_scale_children()->add_quotas();
    one->set_quota_id(id);
    set(one->mutable_guarantee(), gpus(count));
  }
  CHECK_FALSE(bench.command(scale).has_refusal());
  CHECK(gpu_count(bench.terms_to["quota/q12"].hold_at_most()) == 72);
  CHECK_FALSE(bench.terms_to["quota/q12"].may_evict());
  CHECK(gpu_count(bench.terms_to["quota/q11"].given_total()) == 48);
  bench.claims("q12", 80, 8, 72);
  CHECK(gpu_count(bench.terms_to["quota/q11"].given_total()) == 56);
}

TEST_CASE(
    "quota machine: a child that waits below its guarantee gets what its sibling leaves unused") {
  v1::QuotaRecord record = root(128, true);
  add_child(record, "q11", 56, 48);
  add_child(record, "q12", 72, 72);
  // The parent's own service holds the missing 8.
  v1::ChargeRecord charge;
  charge.mutable_claim()->set_workload("service/s");
  charge.set_node_type("a100");
  charge.mutable_amount()->set_gpu_milli(8'000);
  v1::Record part;
  part.set_key("quota/q1#service/s/0");
  part.set_kind("ChargeRecord");
  charge.SerializeToString(part.mutable_body());
  Bench bench(record, {part});
  bench.capacity(128).claims("q11", 48, 0, 48).claims("q12", 72, 0, 8);
  CHECK(gpu_count(bench.terms_to["quota/q12"].hold_at_most()) == 72);
  bench.claims("q11", 48, 0, 48, 8);
  CHECK(gpu_count(bench.terms_to["quota/q12"].hold_at_most()) == 64);
  CHECK_FALSE(bench.terms_to["quota/q12"].may_evict());
  bench.claims("q12", 72, 8, 8);
  CHECK(gpu_count(bench.terms_to["quota/q11"].given_total()) == 56);
  CHECK(gpu_count(bench.terms_to["quota/q12"].given_total()) == 72);
}

TEST_CASE("quota machine: refusals name the field and the numbers") {
  v1::QuotaRecord record = root(128);
  add_child(record, "q11", 48, 48);
  Bench bench(record);
  bench.capacity(128).claims("q11", 48, 0, 0);
  v1::QuotaCommand create;
  *create.mutable_create_child() = a_quota("q12", "q1", 96);
  CHECK(bench.command(create).refusal().code() == "QuotaExceedsParent");
  CHECK(bench.reply.refusal().message() ==
        "Min: 96 GPUs of a100 is more than quota \"q1\" has left for children: it has 128 GPUs of "
        "a100, other children have 48, so at most 80 are allowed");
  create.mutable_create_child()->set_name("q11");
  CHECK(bench.command(create).refusal().code() == "QuotaNameExists");
  *create.mutable_create_child() = a_quota("q12", "q1", 80);
  CHECK(bench.command(create).id() == "q12");
  CHECK(bench.births == std::vector<std::string>{"quota/q12"});
  v1::QuotaCommand remove;
  remove.set_delete_child("nothing");
  CHECK(bench.command(remove).refusal().http_status() == 404);
}

TEST_CASE("quota machine: rebuilt from its records it holds and has used what it did before") {
  Bench bench(root(16));
  bench.capacity(16).demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 8);
  v1::Record charge;
  charge.set_key("quota/q1#job/a/0");
  charge.set_kind("ChargeRecord");
  bench.charges["job/a/0"].SerializeToString(charge.mutable_body());
  QuotaMachine again({"quota/q1", 2}, {record_of(bench.saved), charge});
  Effects effects;
  again.start({}, effects);
  v1::Envelope ask;
  ask.set_from("gateway/g");
  ask.mutable_quota()->mutable_command()->set_describe(true);
  again.handle(ask, {}, effects);
  again.settle({}, effects);
  v1::QuotaView view;
  for (const v1::Envelope& sent : effects.sends) {
    if (sent.has_reply()) view.ParseFromString(sent.reply().body());
  }
  CHECK(gpu_count(view.used()) == 8);
  CHECK(gpu_count(view.holding()) == 16);
}

TEST_CASE("quota machine: two gangs that fit the quota and no node do not take turns for ever") {
  Bench bench(root(16));
  bench.capacity(16);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 10);
  bench.demand("job/b", 1, v1::CLAIM_PHASE_WAITING, 10);
  REQUIRE(bench.charges.count("job/a/0") == 1);
  bench.answer("job/a", 1, v1::ANSWER_STATE_UNPLACED);
  bench.answer("job/b", 1, v1::ANSWER_STATE_UNPLACED);
  // Whatever comes by now, without a change of places: neither is charged again.
  for (int i = 0; i < 5; ++i) {
    bench.capacity(16);
    bench.answer("job/a", 1, v1::ANSWER_STATE_UNPLACED);
    bench.answer("job/b", 1, v1::ANSWER_STATE_UNPLACED);
    CHECK(bench.charges.empty());
  }
  bench.answer("job/a", 1, v1::ANSWER_STATE_PLANNED);
  CHECK(bench.charges.count("job/a/0") == 1);
}

TEST_CASE("quota machine: a listed victim goes although free units would cover the recall") {
  Bench bench(child());
  bench.terms(48, 48, 48);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 4);
  bench.answer("job/a", 1, v1::ANSWER_STATE_PLACED);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_RUNNING, 4);
  bench.demand("job/b", 1, v1::CLAIM_PHASE_WAITING, 4);
  bench.answer("job/b", 1, v1::ANSWER_STATE_PLACED);
  bench.demand("job/b", 1, v1::CLAIM_PHASE_RUNNING, 4);
  // 40 are free here; the plan needs the slots that job/b lies on.
  bench.recall(48, 48, 44, {victim("job/b", "q11", 4)});
  CHECK(gpu_count(bench.claims_up.returned_total()) == 4);
  CHECK(bench.told["job/b"].preempt().reason() == v1::PREEMPT_REASON_CHILD_LEVEL_PREEMPTION);
  CHECK_FALSE(bench.told["job/a"].has_preempt());
}

TEST_CASE("quota machine: a plan that is answered leaves the question as it was") {
  auto record = root(128, true);
  add_child(record, "c1", 48, 48);
  add_child(record, "c2", 80, 80);
  Bench bench(record);
  bench.capacity(128).claims("c1", 48, 0, 48).claims("c2", 80, 0, 80);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 8);
  const v1::PlaceClaim asked = bench.placed["job/a"];
  REQUIRE(asked.want() == v1::PLACE_WANT_PLAN);
  CHECK(asked.must_free().gpu_milli() == 8'000);
  bench.answer("job/a", 1, v1::ANSWER_STATE_PLANNED, {victim("job/v", "c2", 8)});
  CHECK(bench.placed["job/a"].must_free().gpu_milli() == 8'000);
  CHECK(bench.placed["job/a"].header().stamp().version() == asked.header().stamp().version());
  CHECK(gpu_count(bench.terms_to["quota/c1"].hold_at_most()) == 48);
  CHECK(gpu_count(bench.terms_to["quota/c2"].hold_at_most()) == 72);
}

TEST_CASE("quota machine: a dropped plan leaves the dues of other plans where they were") {
  auto record = root(128, true);
  add_child(record, "c1", 48, 48);
  add_child(record, "c2", 80, 80);
  Bench bench(record);
  bench.capacity(128).claims("c1", 48, 0, 48).claims("c2", 80, 0, 80);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_WAITING, 8);
  bench.answer("job/a", 1, v1::ANSWER_STATE_PLANNED, {victim("job/v", "c1", 8)});
  bench.demand("job/b", 1, v1::CLAIM_PHASE_WAITING, 4);
  bench.answer("job/b", 1, v1::ANSWER_STATE_PLANNED, {victim("job/w", "c2", 4)});
  REQUIRE(gpu_count(bench.terms_to["quota/c1"].hold_at_most()) == 40);
  REQUIRE(gpu_count(bench.terms_to["quota/c2"].hold_at_most()) == 76);
  bench.demand("job/a", 1, v1::CLAIM_PHASE_GONE, 8);
  CHECK(gpu_count(bench.terms_to["quota/c1"].hold_at_most()) == 48);
  CHECK(gpu_count(bench.terms_to["quota/c2"].hold_at_most()) == 76);
}
