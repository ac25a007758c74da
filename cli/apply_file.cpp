#include "cli/apply_file.hpp"

#include <algorithm>
#include <set>

#include "base/nearest.hpp"

namespace ebb::cli {
namespace {

constexpr std::int64_t kCopiesMax = 10'000;

struct Section {
  const char* name;
  const char* product;
  const char* type;
  const char* name_field;
  ExtraFields extras;
  std::vector<ApplyItem> ApplyFile::*items;
};

const std::vector<Section>& sections() {
  static const std::map<std::string, std::string> kHome = {
      {"Quota", "string"}, {"Workspace", "string"}, {"Copies", "number"}};
  static const std::vector<Section> kSections = {
      {"ResourceGroups", "studio", "CreateResourceGroupRequest", "Name", {}, &ApplyFile::groups},
      {"Quotas",
       "studio",
       "CreateQuotaRequest",
       "QuotaName",
       {{"CreateQuotaRequest",
         {{"ResourceGroups", "[string]"},
          {"SubQuotas", "[CreateQuotaRequest]"},
          {"ParentQuota", "string"}}}},
       &ApplyFile::quotas},
      {"Workspaces",
       "workspace",
       "CreateWorkspaceRequest",
       "WorkspaceName",
       {{"CreateWorkspaceRequest",
         {{"Quotas", "[string]"}, {"Members", "[CreateMemberRequestMembers]"}}}},
       &ApplyFile::workspaces},
      {"Services",
       "eas",
       "ServiceDocument",
       "name",
       {{"ServiceDocument", {{"cronscaler", "CreateServiceCronScalerRequest"}}},
        {"ServiceMetadata", {{"quota", "string"}, {"workspace", "string"}}}},
       &ApplyFile::services},
      {"Jobs",
       "dlc",
       "CreateJobRequest",
       "DisplayName",
       {{"CreateJobRequest", kHome}},
       &ApplyFile::jobs},
      {"Instances",
       "dsw",
       "CreateInstanceRequest",
       "InstanceName",
       {{"CreateInstanceRequest", kHome}},
       &ApplyFile::instances},
  };
  return kSections;
}

/// A quota and, after it, those nested in it.
void flatten(const Json& quota, const std::string& parent, int line, std::vector<ApplyItem>& out) {
  Json body = quota;
  body.erase("SubQuotas");
  if (!parent.empty()) body["ParentQuota"] = parent;
  const std::string name = body.value("QuotaName", "");
  out.push_back({std::move(body), name, line});
  if (!quota.contains("SubQuotas") || quota["SubQuotas"].is_null()) return;
  for (const Json& below : quota["SubQuotas"]) flatten(below, name, line, out);
}

Result<Ok> add_copies(const Section& section, const Json& item, const std::string& file,
                      const YAML::Mark& mark, std::vector<ApplyItem>& out) {
  const int line = mark.line + 1;
  const std::string name = item.value(section.name_field, "");
  if (!item.contains("Copies") || item["Copies"].is_null()) {
    out.push_back({item, name, line});
    return Ok{};
  }
  const Json copies = item["Copies"];
  if (!copies.is_number_integer() || copies.get<std::int64_t>() < 0 ||
      copies.get<std::int64_t>() > kCopiesMax) {
    return yaml_refusal(file, mark, "Copies is " + api::shown(copies) + "; 0 to 10000 are allowed");
  }
  for (std::int64_t i = 0; i < copies.get<std::int64_t>(); ++i) {
    Json one = item;
    one.erase("Copies");
    one[section.name_field] = name + "-" + std::to_string(i);
    out.push_back({one, one[section.name_field], line});
  }
  return Ok{};
}

Result<Ok> read_section(const Section& section, const YAML::Node& list, const std::string& file,
                        std::vector<ApplyItem>& out) {
  if (list.IsNull()) return Ok{};
  if (!list.IsSequence()) {
    return yaml_refusal(file, list.Mark(), std::string(section.name) + ": a list is expected");
  }
  const YamlRequest reader(file, section.product, section.extras);
  for (const YAML::Node& node : list) {
    auto item = reader.read(node, section.type);
    if (!item) return item.refusal();
    if (!item->is_object() || item->value(section.name_field, "").empty()) {
      return yaml_refusal(file, node.Mark(), std::string(section.name_field) + " must be given");
    }
    if (std::string(section.name) == "Quotas") {
      flatten(*item, item->value("ParentQuota", ""), node.Mark().line + 1, out);
    } else if (auto added = add_copies(section, *item, file, node.Mark(), out); !added) {
      return added.refusal();
    }
  }
  std::set<std::string> names;
  for (const ApplyItem& item : out) {
    if (names.insert(item.name).second) continue;
    return Refusal{"InvalidFile",
                   file + ":" + std::to_string(item.line) + ": " + section.name + " has `" +
                       item.name + "` twice",
                   400};
  }
  return Ok{};
}

}  // namespace

Result<ApplyFile> read_apply_file(const std::string& text, const std::string& file) {
  auto root = YamlRequest::load(text, file);
  if (!root) return root.refusal();
  ApplyFile result;
  result.file = file;
  if (root->IsNull()) return result;
  if (!root->IsMap()) return yaml_refusal(file, root->Mark(), "a map of sections is expected");
  std::vector<std::string> known;
  for (const Section& section : sections()) known.emplace_back(section.name);
  std::set<std::string> seen;
  for (const auto& entry : *root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "?";
    const auto section = std::find_if(sections().begin(), sections().end(),
                                      [&](const Section& one) { return key == one.name; });
    if (section == sections().end()) {
      return yaml_refusal(file, entry.first.Mark(),
                          "unknown key `" + key + "`" + did_you_mean(key, known));
    }
    if (!seen.insert(key).second)
      return yaml_refusal(file, entry.first.Mark(), "`" + key + "` comes twice");
    if (auto read = read_section(*section, entry.second, file, result.*(section->items)); !read) {
      return read.refusal();
    }
  }
  return result;
}

Result<std::vector<ApplyItem>> read_items(const std::string& text, const std::string& file,
                                          const std::string& section_name) {
  auto root = YamlRequest::load(text, file);
  if (!root) return root.refusal();
  const auto section = std::find_if(sections().begin(), sections().end(),
                                    [&](const Section& one) { return section_name == one.name; });
  EBB_ASSERT(section != sections().end());
  // A node assigned to a node changes what both stand for, so the list begins as one of its own.
  YAML::Node list(YAML::NodeType::Sequence);
  if (root->IsSequence()) {
    list.reset(*root);
  } else {
    list.push_back(*root);
  }
  std::vector<ApplyItem> items;
  if (auto read = read_section(*section, list, file, items); !read) return read.refusal();
  return items;
}

}  // namespace ebb::cli
