#include "server/first_start.hpp"

#include <sodium.h>

#include <filesystem>

#include "cluster/link/allow_list.hpp"
#include "cluster/private_file.hpp"

namespace ebb::server {
namespace {
constexpr const char* kLocalAgent = "local";
}

Result<std::string> load_or_make_token(const std::string& directory) {
  const std::string path = directory + "/token";
  if (std::filesystem::exists(path)) {
    auto content = cluster::read_file(path);
    if (!content) return content.refusal();
    std::string token = content->substr(0, content->find_first_of(" \r\n"));
    if (token.size() < 16) {
      return Refusal{"TokenFile",
                     path + " holds a token of " + std::to_string(token.size()) +
                         " characters, at least 16 are needed; remove the file to get a new one",
                     500};
    }
    return token;
  }
  if (sodium_init() < 0) return Refusal{"TokenFile", "no source of random numbers", 500};
  unsigned char bytes[32];
  randombytes_buf(bytes, sizeof bytes);
  char hex[2 * sizeof bytes + 1];
  sodium_bin2hex(hex, sizeof hex, bytes, sizeof bytes);
  auto written = cluster::write_private_file(path, std::string(hex) + "\n");
  if (!written) return written.refusal();
  return std::string(hex);
}

Result<Ok> prepare_join(const std::string& directory, const std::string& allow_directory,
                        const std::string& endpoint, const std::string& server_public_key) {
  const std::string join_directory = directory + "/join";
  cluster::Join join{.endpoint = endpoint, .server_public_key = server_public_key, .key = {}};
  if (std::filesystem::exists(join_directory + "/join")) {
    auto former = cluster::read_join(join_directory);
    if (!former) return former.refusal();
    join.key = former->key;
  } else {
    join.key = cluster::make_key_pair();
    auto allowed = cluster::write_allow_entry(
        allow_directory, {.name = kLocalAgent, .public_key = join.key.public_key, .nodes = {"*"}});
    if (!allowed) return allowed;
  }
  return cluster::write_join(join_directory, join);
}

}  // namespace ebb::server
