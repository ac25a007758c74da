// Where the files of pods lie in the agent's data directory, and what the shim has written there.
//
//   pods/NODE/contact         when the scheduler was last known to hear the node
//   pods/NODE/POD/            control (socket), identity, exit: until the node has saved the exit
//   code logs/CLAIM/attempt-K/pod-N.log, and .log.1 before it checkpoints/CLAIM/
//   EBB_CHECKPOINT_DIR, over all attempts work/CLAIM/               working directory where none is
//   asked for
//
// CLAIM is "job.dlc1.0" for claim 0 of job/dlc1; POD adds attempt and rank: "job.dlc1.0.2.5". Other
// characters than letters, digits, - and _ are written as %XX, so names are unique and stay inside
// their directory.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ebb/v1/node.pb.h"

namespace ebb::agent {

struct PodName {
  std::string workload;
  std::uint32_t index = 0, attempt = 0, pod = 0;
  friend auto operator<=>(const PodName&, const PodName&) = default;
};
PodName name_of(const v1::PodKey& key);
/// "job/dlc1/0 attempt=2 pod=5", for log lines.
std::string words(const PodName& name);

std::string claim_file_name(const PodName& name);
std::string pod_file_name(const PodName& name);
/// Nothing: not a name that pod_file_name makes.
std::optional<PodName> parse_pod_file_name(const std::string& file_name);
std::string encode_file_name(const std::string& text);

struct PodFiles {
  std::string data;  // the agent's data directory
  std::string node_directory(const std::string& node) const;
  std::string pod_directory(const std::string& node, const PodName& name) const;
  std::string contact_path(const std::string& node) const;
  std::string log_path(const PodName& name) const;
  std::string checkpoint_directory(const PodName& name) const;
  std::string work_directory(const PodName& name) const;
};

struct Identity {
  std::string boot_id;
  pid_t pid = 0;
  std::int64_t start = 0;
  pid_t shim = 0;
  std::string log_path;
  std::string cgroup;
  unsigned port = 0;
};
std::optional<Identity> read_identity(const std::string& pod_directory);

struct Exit {
  enum class What { Ended, Empty, Failed } what = What::Ended;
  int code = 0;
  std::string text;
};
std::optional<Exit> parse_exit(const std::string& line);
std::optional<Exit> read_exit(const std::string& pod_directory);

/// As mkdir -p, each with mode 0700. False: errno says why.
bool make_directories(const std::string& path);
/// The pod's directory and all in it.
void remove_pod_directory(const std::string& path);

}  // namespace ebb::agent
