#include "cluster/link/keys.hpp"

#include <zmq.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "cluster/private_file.hpp"

namespace ebb::cluster {
namespace {

constexpr std::size_t kKeyCharacters = 40;

/// Lines of "name value".
Result<std::map<std::string, std::string>> read_fields(const std::string& path,
                                                       std::initializer_list<const char*> wanted) {
  auto content = read_file(path);
  if (!content) return content.refusal();
  std::map<std::string, std::string> fields;
  std::istringstream lines(*content);
  for (std::string name, value; lines >> name >> value;) fields[name] = value;
  for (const char* name : wanted) {
    if (!fields.contains(name)) {
      return Refusal{"LinkFile", path + " has no line \"" + name + " ...\"", 500};
    }
    if (std::string_view(name).ends_with("_key") && !is_key(fields[name])) {
      return Refusal{"LinkFile", path + ": " + name + " is not a key of 40 Z85 characters", 500};
    }
  }
  return fields;
}

}  // namespace

bool is_key(const std::string& z85) {
  std::uint8_t bytes[32];
  return z85.size() == kKeyCharacters && zmq_z85_decode(bytes, z85.c_str()) != nullptr;
}

KeyPair make_key_pair() {
  char public_key[kKeyCharacters + 1], secret_key[kKeyCharacters + 1];
  EBB_ASSERT(zmq_curve_keypair(public_key, secret_key) == 0);
  return {public_key, secret_key};
}

Result<KeyPair> load_or_make_key_pair(const std::string& path) {
  if (std::filesystem::exists(path)) {
    auto fields = read_fields(path, {"public_key", "secret_key"});
    if (!fields) return fields.refusal();
    return KeyPair{(*fields)["public_key"], (*fields)["secret_key"]};
  }
  KeyPair pair = make_key_pair();
  auto written = write_private_file(
      path, "public_key " + pair.public_key + "\nsecret_key " + pair.secret_key + "\n");
  if (!written) return written.refusal();
  return pair;
}

Result<Join> read_join(const std::string& directory) {
  auto fields = read_fields(directory + "/join",
                            {"endpoint", "server_public_key", "public_key", "secret_key"});
  if (!fields) return fields.refusal();
  return Join{.endpoint = (*fields)["endpoint"],
              .server_public_key = (*fields)["server_public_key"],
              .key = {(*fields)["public_key"], (*fields)["secret_key"]}};
}

Result<Ok> write_join(const std::string& directory, const Join& join) {
  auto made = make_private_directory(directory);
  if (!made) return made;
  return write_private_file(directory + "/join",
                            "endpoint " + join.endpoint + "\nserver_public_key " +
                                join.server_public_key + "\npublic_key " + join.key.public_key +
                                "\nsecret_key " + join.key.secret_key + "\n");
}

}  // namespace ebb::cluster
