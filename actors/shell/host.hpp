// The host runs machines under CAF: it builds them from the store's records, brings them messages
// and carries out their effects in the order save, send, wake. A machine may go on while its save
// is written; what it sends is held, in order, until everything it saved before is durable.
// Programs (ebbd, ebb-agent) have one host each.
//
// Errors. Full disk: saves are tried again every 500 ms, sends stay held, and asks that create or
// change things are refused with `StoreFull` (507). Deposed, a record that cannot be read, or a
// machine that threw more than 3 times in a minute: `stop_process` is called. An exception that
// leaves a machine: the machine is rebuilt from its records as last saved and started again.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/machine.hpp"
#include "cluster/clock.hpp"
#include "cluster/link/link.hpp"
#include "cluster/post.hpp"

namespace ebb::actors {

struct HostSettings {
  using Factory =
      std::function<std::unique_ptr<Machine>(const Context&, const std::vector<v1::Record>&)>;
  std::string cluster = "ebb";
  std::string shard = "main";
  std::string process = "ebbd";                // its name as the shard's owner
  std::string reply_address = "gateway/main";  // where answers to ask() are sent
  unsigned threads = 0;                        // of the actors; 0: one per core
  cluster::Clock clock = {};
  /// Called at most once, from any thread, when the process must not go on; must not return
  /// normally in production. Empty: log and exit with code 70.
  std::function<void(const std::string& why)> stop_process = {};
  Factory factory = make_machine;
};

class Host : public cluster::Post {
 public:
  using Received = cluster::Link::Received;

  Host(HostSettings settings, cluster::Store& store);
  /// Stops the machines; what was already handed to the store is still written. Links that deliver
  /// here and those who hold answers must have ended before.
  ~Host() override;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Becomes owner of the shard, saves `seed` (records that must be as given, for instance a node's
  /// facts), builds all machines of the shard and starts them. Once, after add_endpoint() and
  /// use().
  Result<Ok> start(std::vector<v1::Record> seed = {});
  /// A new machine at run time: its records are saved, then it is built and started, then `born` is
  /// called. Refused (409) if it lives already.
  Result<Ok> create(std::vector<v1::Record> records, std::function<void()> born = {});
  bool hosts(const std::string& address) const;
  /// Addresses of the machines here, in any order; for a link's greeting.
  std::vector<std::string> addresses() const;

  /// An address here that is no machine: envelopes to it are given to `received`, from any thread,
  /// which must not wait.
  void add_endpoint(std::string address, Received received);
  /// From an endpoint: `from`, `to` and payload are set, the rest is filled in.
  void send(v1::Envelope envelope);

  /// Where envelopes go whose receiver is not here.
  void use(std::shared_ptr<cluster::Link> link);
  /// What a link has received. Never sent on to a link.
  void deliver(cluster::EnvelopePtr envelope);

  void ask(v1::Envelope envelope, std::int64_t timeout_ms, Answered answered) override;
  cluster::Store& store() override;
  std::int64_t wall_ms() const override;
  std::vector<cluster::DecisionLine> decisions(std::uint64_t after,
                                               std::size_t at_most) const override;
  Instant now() const;
  std::uint64_t epoch() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace ebb::actors
