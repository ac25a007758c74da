// `ebb apply`: brings a cluster to what a file says. See docs/apply.md.
#pragma once
#include "cli/apply_file.hpp"
#include "cli/shell.hpp"

namespace ebb::cli {

/// Throws Refused with file and line of the item that was refused.
void apply(const ApplyFile& file, Shell& shell);

}  // namespace ebb::cli
