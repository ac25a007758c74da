#include "agent/pod_files.hpp"

#include <sys/stat.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "agent/shim/processes.hpp"

namespace ebb::agent {
namespace {
constexpr const char* kHex = "0123456789ABCDEF";

std::optional<std::string> decode(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const char* first = text.data() + i + 1;
    if (std::from_chars(first, first + 2, byte, 16).ptr != first + 2) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

/// Cuts ".NUMBER" from the end.
bool cut_number(std::string* text, std::uint32_t* number) {
  const std::size_t dot = text->rfind('.');
  if (dot == std::string::npos) return false;
  const char* first = text->data() + dot + 1;
  const char* last = text->data() + text->size();
  const auto [end, error] = std::from_chars(first, last, *number);
  if (error != std::errc{} || end != last || first == last) return false;
  text->resize(dot);
  return true;
}
}  // namespace

PodName name_of(const v1::PodKey& key) {
  return {key.workload(), key.index(), key.attempt(), key.pod()};
}

std::string words(const PodName& name) {
  return name.workload + "/" + std::to_string(name.index) +
         " attempt=" + std::to_string(name.attempt) + " pod=" + std::to_string(name.pod);
}

std::string encode_file_name(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_') {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

std::string claim_file_name(const PodName& name) {
  const std::size_t slash = name.workload.find('/');
  const std::string kind = encode_file_name(name.workload.substr(0, slash));
  const std::string id =
      slash == std::string::npos ? "" : encode_file_name(name.workload.substr(slash + 1));
  return kind + "." + id + "." + std::to_string(name.index);
}

std::string pod_file_name(const PodName& name) {
  return claim_file_name(name) + "." + std::to_string(name.attempt) + "." +
         std::to_string(name.pod);
}

std::optional<PodName> parse_pod_file_name(const std::string& file_name) {
  std::string text = file_name;
  PodName name;
  if (!cut_number(&text, &name.pod) || !cut_number(&text, &name.attempt) ||
      !cut_number(&text, &name.index)) {
    return std::nullopt;
  }
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos) return std::nullopt;
  const auto kind = decode(text.substr(0, dot)), id = decode(text.substr(dot + 1));
  if (!kind || !id) return std::nullopt;
  name.workload = *kind + "/" + *id;
  return name;
}

std::string PodFiles::node_directory(const std::string& node) const {
  return data + "/pods/" + encode_file_name(node);
}
std::string PodFiles::contact_path(const std::string& node) const {
  return node_directory(node) + "/contact";
}
std::string PodFiles::pod_directory(const std::string& node, const PodName& name) const {
  return node_directory(node) + "/" + pod_file_name(name);
}
std::string PodFiles::log_path(const PodName& name) const {
  return data + "/logs/" + claim_file_name(name) + "/attempt-" + std::to_string(name.attempt) +
         "/pod-" + std::to_string(name.pod) + ".log";
}
std::string PodFiles::checkpoint_directory(const PodName& name) const {
  return data + "/checkpoints/" + claim_file_name(name);
}
std::string PodFiles::work_directory(const PodName& name) const {
  return data + "/work/" + claim_file_name(name);
}

std::optional<Identity> read_identity(const std::string& pod_directory) {
  std::map<std::string, std::string> fields;
  const std::string text = read_file(pod_directory + "/identity");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::size_t equals = text.find('=', at);
    if (equals < end) {
      fields[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
    }
    at = end + 1;
  }
  Identity identity;
  identity.boot_id = fields["boot_id"];
  identity.pid = std::atoi(fields["pid"].c_str());
  identity.start = std::atoll(fields["start"].c_str());
  identity.shim = std::atoi(fields["shim"].c_str());
  identity.log_path = fields["log"];
  identity.cgroup = fields["cgroup"];
  identity.port = static_cast<unsigned>(std::atoi(fields["port"].c_str()));
  if (identity.pid <= 0 || identity.start <= 0) return std::nullopt;
  return identity;
}

std::optional<Exit> parse_exit(const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return std::nullopt;
  const std::string what = line.substr(0, space);
  Exit exit;
  if (what == "ended") {
    exit.what = Exit::What::Ended;
  } else if (what == "empty") {
    exit.what = Exit::What::Empty;
  } else if (what == "failed") {
    exit.what = Exit::What::Failed;
  } else {
    return std::nullopt;
  }
  exit.code = std::atoi(line.c_str() + space + 1);
  const std::size_t text = line.find(' ', space + 1);
  if (text != std::string::npos) exit.text = line.substr(text + 1);
  while (!exit.text.empty() && exit.text.back() == '\n') exit.text.pop_back();
  return exit;
}

std::optional<Exit> read_exit(const std::string& pod_directory) {
  return parse_exit(read_file(pod_directory + "/exit"));
}

bool make_directories(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  const std::size_t slash = path.rfind('/');
  if (errno != ENOENT || slash == std::string::npos || slash == 0) return false;
  return make_directories(path.substr(0, slash)) &&
         (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST);
}

void remove_pod_directory(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace ebb::agent
