// What ebbd makes in its data directory at its first start and finds there later.
#pragma once
#include <string>

#include "base/result.hpp"
#include "cluster/link/keys.hpp"

namespace ebb::server {

/// The bearer token in DIRECTORY/token (0600): made of 32 random bytes at the first call.
Result<std::string> load_or_make_token(const std::string& directory);

/// Writes DIRECTORY/join, with which an agent on this machine joins as any node (`ebb-agent --join
/// DIRECTORY/join`), and its entry in the allow-list. The agent's key stays the same; an entry that
/// an operator took away stays away.
Result<Ok> prepare_join(const std::string& directory, const std::string& allow_directory,
                        const std::string& endpoint, const std::string& server_public_key);

}  // namespace ebb::server
