// The apply file (docs/apply.md): one YAML file with everything a cluster is to have. Reading it
// sends nothing.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/yaml_request.hpp"

namespace ebb::cli {

/// One thing to be made. `body` is the API's create request, in which what belongs elsewhere is
/// still by name: quotas have `ParentQuota`, workspaces `Quotas` and `Members`, services
/// `cronscaler`, jobs and instances `Quota`, `Workspace`.
struct ApplyItem {
  Json body;
  std::string name;
  int line = 0;  // from 1
};

struct ApplyFile {
  std::string file;
  std::vector<ApplyItem> groups, quotas /* parents before children */, workspaces, services, jobs,
      instances;
};

Result<ApplyFile> read_apply_file(const std::string& text, const std::string& file);
/// One item alone, as `dlc create -f` takes it. `section`: Quotas, Workspaces, Services, Jobs,
/// Instances.
Result<std::vector<ApplyItem>> read_items(const std::string& text, const std::string& file,
                                          const std::string& section);

}  // namespace ebb::cli
