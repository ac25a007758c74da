// What the agent tells a shim: one pod to run. Written to an unnamed file that the shim gets as
// descriptor kSpecFd; each field is its length in four bytes, then its bytes. Both ends come from
// one build, so there is no version.
//
// Plain C++ without our other parts, so that a shim is small.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ebb::agent {

/// Descriptors the shim finds at its start.
inline constexpr int kControlFd =
    3;  // listening unix socket, also to be found as DIRECTORY/control
inline constexpr int kSpecFd = 4;
/// The nursery finds its end of a SOCK_SEQPACKET pair here. A message is one byte with two
/// descriptors: the listening control socket and the spec.
inline constexpr int kNurseryFd = 3;

struct ShimSpec {
  std::string directory;  // the pod's own: identity and exit files
  std::string boot_id;
  std::string log_path;
  std::string log_bytes_max = "67108864";
  std::string log_files_max = "2";
  std::string cgroup;  // directory; empty: none
  std::string workdir;
  std::string port = "0";  // kept in the identity
  // Without contact for this long the pod is stopped here, also where no agent is left: its
  // scheduler is about to start it elsewhere. 0: never.
  std::string stop_after_ms = "0";
  std::string grace_period_ms = "0";  // for that
  std::string contact_path;           // a file with the last contact, CLOCK_MONOTONIC in ms
  std::vector<std::string> command;
  std::vector<std::string> env;  // NAME=value
};

inline void put(std::string* out, std::string_view field) {
  const auto size = static_cast<std::uint32_t>(field.size());
  out->append(reinterpret_cast<const char*>(&size), sizeof size);
  out->append(field);
}
inline void put(std::string* out, const std::vector<std::string>& list) {
  put(out, std::to_string(list.size()));
  for (const std::string& field : list) put(out, field);
}
inline std::string bytes_of(const ShimSpec& spec) {
  std::string out;
  put(&out, spec.directory);
  put(&out, spec.boot_id);
  put(&out, spec.log_path);
  put(&out, spec.log_bytes_max);
  put(&out, spec.log_files_max);
  put(&out, spec.cgroup);
  put(&out, spec.workdir);
  put(&out, spec.port);
  put(&out, spec.stop_after_ms);
  put(&out, spec.grace_period_ms);
  put(&out, spec.contact_path);
  put(&out, spec.command);
  put(&out, spec.env);
  return out;
}

/// False: `in` is cut short. `in` is moved past the field.
inline bool take(std::string_view* in, std::string* field) {
  std::uint32_t size = 0;
  if (in->size() < sizeof size) return false;
  std::memcpy(&size, in->data(), sizeof size);
  in->remove_prefix(sizeof size);
  if (in->size() < size) return false;
  field->assign(in->substr(0, size));
  in->remove_prefix(size);
  return true;
}
inline bool take(std::string_view* in, std::vector<std::string>* list) {
  std::string count;
  if (!take(in, &count)) return false;
  std::size_t left = 0;
  for (const char digit : count) left = left * 10 + static_cast<std::size_t>(digit - '0');
  for (; left > 0; --left) {
    list->emplace_back();
    if (!take(in, &list->back())) return false;
  }
  return true;
}
inline bool read_spec(std::string_view in, ShimSpec* spec) {
  return take(&in, &spec->directory) && take(&in, &spec->boot_id) && take(&in, &spec->log_path) &&
         take(&in, &spec->log_bytes_max) && take(&in, &spec->log_files_max) &&
         take(&in, &spec->cgroup) && take(&in, &spec->workdir) && take(&in, &spec->port) &&
         take(&in, &spec->stop_after_ms) && take(&in, &spec->grace_period_ms) &&
         take(&in, &spec->contact_path) && take(&in, &spec->command) && take(&in, &spec->env);
}

}  // namespace ebb::agent
