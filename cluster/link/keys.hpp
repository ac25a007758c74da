// CURVE key pairs and where they are kept. Keys are written in Z85, 40 characters. Files are
// private (0600).
#pragma once
#include <string>

#include "base/result.hpp"

namespace ebb::cluster {

struct KeyPair {
  std::string public_key;
  std::string secret_key;
};

bool is_key(const std::string& z85);
KeyPair make_key_pair();
/// The pair kept in the file, or a new one, which is then kept.
Result<KeyPair> load_or_make_key_pair(const std::string& path);

/// All an agent needs to join: DIRECTORY/join.
struct Join {
  std::string endpoint;           // of ebbd, "tcp://127.0.0.1:7001"
  std::string server_public_key;  // who else answers there is not ebbd
  KeyPair key;                    // the agent's own
};
Result<Join> read_join(const std::string& directory);
Result<Ok> write_join(const std::string& directory, const Join& join);

}  // namespace ebb::cluster
