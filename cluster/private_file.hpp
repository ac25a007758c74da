// Files that only their owner may read (0600), written whole or not at all.
#pragma once
#include <string>

#include "base/result.hpp"

namespace ebb::cluster {

/// Writes next to it, syncs and renames.
Result<Ok> write_private_file(const std::string& path, const std::string& content);
/// The whole file. Refused if it is missing, cannot be read or is larger than 1 MiB.
Result<std::string> read_file(const std::string& path);
/// Makes the directory (0700) and those above it, where missing.
Result<Ok> make_private_directory(const std::string& path);

}  // namespace ebb::cluster
