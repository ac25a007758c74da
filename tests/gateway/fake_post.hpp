// A cluster of answers: each address has a function from command to reply. Records saved into its
// store fill the lists.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cluster/post.hpp"
#include "cluster/store/memory_store.hpp"

namespace ebb::gateway::testing {

class FakePost : public cluster::Post {
 public:
  using Actor = std::function<v1::Reply(const v1::Envelope&)>;

  std::map<std::string, Actor> actors;
  std::vector<v1::Envelope> asked;
  std::int64_t clock_ms = 1'767'225'600'000;  // 2026-01-01T00:00:00Z
  std::vector<cluster::DecisionLine> lines;
  /// Where set: answers are given by it, at a time and on a thread of its own.
  std::function<void(std::function<void()>)> later;

  void ask(v1::Envelope envelope, std::int64_t, Answered answered) override {
    v1::Reply reply;
    {
      const std::scoped_lock lock(mutex_);
      asked.push_back(envelope);
      const auto actor = actors.find(envelope.to());
      if (actor == actors.end()) {
        reply.mutable_refusal()->set_code("NotFound");
        reply.mutable_refusal()->set_message("no actor " + envelope.to());
        reply.mutable_refusal()->set_http_status(404);
      } else {
        reply = actor->second(envelope);
      }
    }
    if (later) {
      later([answered, reply] { answered(reply); });
    } else {
      answered(reply);
    }
  }
  cluster::Store& store() override { return store_; }
  cluster::MemoryStore& memory() { return store_; }
  std::int64_t wall_ms() const override { return clock_ms; }
  std::vector<cluster::DecisionLine> decisions(std::uint64_t after,
                                               std::size_t at_most) const override {
    std::vector<cluster::DecisionLine> found;
    for (const auto& line : lines) {
      if (line.number > after && found.size() < at_most) found.push_back(line);
    }
    return found;
  }

  /// An actor that answers every command with this body, and has this record in the lists.
  template <class View>
  void answers(const std::string& address, const View& view) {
    v1::Reply reply;
    reply.set_body(view.SerializeAsString());
    actors[address] = [reply](const v1::Envelope&) { return reply; };
  }
  template <class Message>
  void record(const std::string& key, const std::string& kind, const Message& message) {
    v1::Record record;
    record.set_key(key);
    record.set_kind(kind);
    record.set_body(message.SerializeAsString());
    if (epoch_ == 0) epoch_ = store_.acquire("all", "test").value();
    store_.save("all", epoch_, {record}, [](cluster::SaveOutcome) {});
  }

 private:
  std::mutex mutex_;
  cluster::MemoryStore store_{cluster::MemoryStore::Mode::Synchronous};
  std::uint64_t epoch_ = 0;
};

}  // namespace ebb::gateway::testing
