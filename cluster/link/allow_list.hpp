// Who may connect, and as whom they may speak: one file per peer in a directory, NAME.allow, with
// the lines
//   public_key Z85
//   nodes PATTERN...      node names; a final * stands for any rest
// Changes of the directory count from the next message on: nothing has to be restarted.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ebb/v1/envelope.pb.h"

namespace ebb::cluster {

struct Peer {
  std::string name;
  std::string public_key;
  std::vector<std::string> nodes;  // patterns

  /// "node/NAME" with a name of its scope.
  bool may_speak_as(const std::string& address) const;
};

/// Whether a node's peer may say this at all: states and reports, and answers. Commands come from
/// the gateway only.
bool is_said_by_nodes(const v1::Envelope& envelope);

class AllowList {
 public:
  /// Makes the directory if it is missing.
  static Result<std::unique_ptr<AllowList>> open(const std::string& directory);
  ~AllowList();
  AllowList(const AllowList&) = delete;
  AllowList& operator=(const AllowList&) = delete;

  /// By the directory's present content. Null: not allowed. Any thread.
  std::shared_ptr<const Peer> find(const std::string& public_key);

 private:
  AllowList(std::string directory, int changes)
      : directory_(std::move(directory)), changes_(changes) {}
  void refresh();
  void reload();
  const std::string directory_;
  const int changes_;  // inotify
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Peer>, std::less<>> peers_;
};

/// Adds or replaces NAME.allow.
Result<Ok> write_allow_entry(const std::string& directory, const Peer& peer);

}  // namespace ebb::cluster
