// What the launcher knows of one pod.
#pragma once
#include <cstdint>
#include <string>

#include "agent/pod_files.hpp"

namespace ebb::agent {

struct RunningPod {
  std::string node;
  PodName name;
  std::string directory;
  int control = -1;   // to its shim; -1: the shim is gone
  std::string heard;  // a line that has not ended yet
  Identity identity;
  std::string checkpoint;          // directory
  std::int64_t checkpoint_ns = 0;  // of the newest one known
  bool orphan = false;             // no node believes in it: it is killed, and nobody is told
  bool started = false, ended = false, over = false;
  bool failed = false;  // with over: it never ran
  bool leaving = false, killing = false;
  int exit_code = -1;
  std::string error;
  bool is_leftover() const { return control < 0 && !over; }
};

/// When EBB_CHECKPOINT_DIR/last was changed, in nanoseconds; 0: there is none.
std::int64_t checkpoint_time(const std::string& checkpoint_directory);

}  // namespace ebb::agent
