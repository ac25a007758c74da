// The command and the environment of a pod: what the user gave, then what Ebb says, which wins.
#pragma once
#include <string>
#include <vector>

#include "ebb/v1/node.pb.h"

namespace ebb::agent {

struct PodSurroundings {
  std::string node;
  std::vector<std::string> gpu_ids;  // of the node, by number; empty: GPUs go by their numbers
  std::string master_address;
  std::string checkpoint_directory;
  std::string mark;   // EBB_POD_MARK: by which leftovers are found where there is no cgroup
  unsigned port = 0;  // 0: none
};

/// NAME=value each.
std::vector<std::string> pod_environment(const v1::LaunchPod& launch,
                                         const PodSurroundings& surroundings);

/// `sh -c "exec PROGRAM WORDS"`, where no word means anything to a shell, is the program itself: a
/// shell that would only become it costs as much as starting it. All else is as given.
std::vector<std::string> pod_command(const v1::LaunchSpec& spec);

/// Where rank 0 of an attempt listens for its peers: the same number on every node, without asking
/// anyone.
unsigned rendezvous_port(const v1::PodKey& key);

}  // namespace ebb::agent
