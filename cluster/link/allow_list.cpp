#include "cluster/link/allow_list.hpp"

#include <spdlog/spdlog.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "cluster/link/keys.hpp"
#include "cluster/private_file.hpp"

namespace ebb::cluster {
namespace {

constexpr std::string_view kNodePrefix = "node/";
constexpr const char* kSuffix = ".allow";

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.ends_with('*')) return name.starts_with(pattern.substr(0, pattern.size() - 1));
  return pattern == name;
}

Result<Peer> read_peer(const std::filesystem::path& path) {
  auto content = read_file(path.string());
  if (!content) return content.refusal();
  Peer peer{.name = path.stem().string(), .public_key = {}, .nodes = {}};
  std::istringstream lines(*content);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, value;
    words >> name;
    if (name == "public_key") words >> peer.public_key;
    if (name == "nodes") {
      while (words >> value) peer.nodes.push_back(value);
    }
  }
  if (!is_key(peer.public_key)) {
    return Refusal{"AllowFile", path.string() + ": public_key is not a key of 40 Z85 characters"};
  }
  return peer;
}

}  // namespace

bool Peer::may_speak_as(const std::string& address) const {
  if (!std::string_view(address).starts_with(kNodePrefix)) return false;
  const std::string_view name = std::string_view(address).substr(kNodePrefix.size());
  if (name.empty()) return false;
  for (const std::string& pattern : nodes) {
    if (matches(pattern, name)) return true;
  }
  return false;
}

bool is_said_by_nodes(const v1::Envelope& envelope) {
  switch (envelope.payload_case()) {
    case v1::Envelope::kPool:
      return envelope.pool().has_node_state();
    case v1::Envelope::kWorkload:
      return envelope.workload().has_pod_reports();
    case v1::Envelope::kTenant:
      return envelope.tenant().has_node_state();
    case v1::Envelope::kReply:
      return true;
    case v1::Envelope::kQuota:
    case v1::Envelope::kNode:
    case v1::Envelope::kLauncher:
    case v1::Envelope::kWorkspace:
    case v1::Envelope::PAYLOAD_NOT_SET:
      return false;
  }
  return false;
}

Result<std::unique_ptr<AllowList>> AllowList::open(const std::string& directory) {
  auto made = make_private_directory(directory);
  if (!made) return made.refusal();
  const int changes = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (changes < 0 || ::inotify_add_watch(changes, directory.c_str(),
                                         IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE |
                                             IN_MODIFY) < 0) {
    const Refusal refusal{"AllowList", "cannot watch " + directory + ": " + std::strerror(errno),
                          500};
    if (changes >= 0) ::close(changes);
    return refusal;
  }
  std::unique_ptr<AllowList> list(new AllowList(directory, changes));
  list->reload();
  return list;
}

AllowList::~AllowList() { ::close(changes_); }

std::shared_ptr<const Peer> AllowList::find(const std::string& public_key) {
  std::lock_guard lock(mutex_);
  refresh();
  const auto found = peers_.find(public_key);
  return found == peers_.end() ? nullptr : found->second;
}

void AllowList::refresh() {
  char events[4096];
  bool changed = false;
  while (::read(changes_, events, sizeof events) > 0) changed = true;
  if (changed) reload();
}

void AllowList::reload() {
  peers_.clear();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, error)) {
    if (entry.path().extension() != kSuffix) continue;
    auto peer = read_peer(entry.path());
    if (!peer) {
      spdlog::warn("allow entry ignored reason={}", peer.refusal().message);
      continue;
    }
    std::string key = peer->public_key;
    peers_[std::move(key)] = std::make_shared<const Peer>(std::move(*peer));
  }
  if (error) spdlog::error("allow list unreadable path={} reason={}", directory_, error.message());
}

Result<Ok> write_allow_entry(const std::string& directory, const Peer& peer) {
  auto made = make_private_directory(directory);
  if (!made) return made;
  std::string content = "public_key " + peer.public_key + "\nnodes";
  for (const std::string& pattern : peer.nodes) content += " " + pattern;
  return write_private_file(directory + "/" + peer.name + kSuffix, content + "\n");
}

}  // namespace ebb::cluster
