// The end of a pod's log file, read where gateway and agent share a machine.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace ebb::gateway {

/// The last lines of a regular file (of at most its last MiB), oldest first, without terminal
/// escapes. A file that is not there any more, or lies on another machine, is refused with 404.
Result<std::vector<std::string>> last_lines(const std::string& path, std::size_t at_most);

}  // namespace ebb::gateway
