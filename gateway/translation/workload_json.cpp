#include "gateway/translation/workload_json.hpp"

#include <algorithm>
#include <cctype>
#include <map>

namespace ebb::gateway {

void set_birth(const Birth& birth, const std::string& workspace_id, const Json& request,
               v1::WorkloadSpec* spec) {
  spec->set_id(birth.id);
  spec->set_user(birth.user);
  spec->set_quota_id(birth.quota.quota_id());
  spec->set_pool(birth.quota.pool());
  spec->set_workspace_id(workspace_id);
  spec->set_created_wall_ms(birth.wall_ms);
  spec->set_request_json(request.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void check_gpu_shape(Fields& in, const char* name, std::int64_t gpu_milli,
                     const v1::QuotaSpec& quota) {
  if (gpu_milli % 1'000 == 0) return;
  if (gpu_milli > 1'000) {
    in.refuse(name, "more than one GPU must be whole GPUs");
  } else if (!quota.gpu_share()) {
    in.refuse(name, "whole GPUs are allowed: quota " + quota.name() + " has EnableGPUShare off");
  }
}

Result<Ok> check_product(v1::Product product, const v1::QuotaSpec& quota) {
  if (quota.workload_types_size() == 0) return Ok{};
  std::string allowed;
  for (const int one : quota.workload_types()) {
    if (one == product) return Ok{};
    allowed +=
        (allowed.empty() ? "" : ", ") + std::string(product_name(static_cast<v1::Product>(one)));
  }
  return Refusal{"InvalidParameter",
                 "quota " + quota.name() + " takes " + allowed + ", not " + product_name(product),
                 400};
}

void set_shell_command(const std::string& text, v1::LaunchSpec* launch) {
  launch->add_command("/bin/sh");
  launch->add_command("-c");
  launch->add_command(text);
}

std::string pod_name(const v1::WorkloadSpec& spec, const std::string& role, std::uint32_t number) {
  std::string name = spec.id() + "-";
  for (const char c : role) {
    name.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return name + "-" + std::to_string(number);
}

namespace {

/// Role and number within the role of a rank: shapes in order.
std::pair<std::string, std::uint32_t> role_of_rank(const v1::WorkloadSpec& spec,
                                                   std::uint32_t rank) {
  std::uint32_t number = rank;
  for (const v1::RoleSpec& role : spec.roles()) {
    if (number < role.pods()) return {role.role(), number};
    number -= role.pods();
  }
  return {"Worker", number};
}

PodView view_of(const v1::WorkloadSpec& spec, std::uint32_t claim_index,
                const v1::PodRecord* record, std::uint32_t rank) {
  PodView view;
  auto [role, number] = role_of_rank(spec, rank);
  if (spec.product() == v1::PRODUCT_SERVICE) number = claim_index;
  view.role = role;
  view.pod_id = pod_name(spec, role, number);
  view.status = "Pending";
  if (record == nullptr) return view;
  view.place = record->place();
  view.report = record->report();
  switch (record->report().state()) {
    case v1::POD_STATE_RUNNING:
    case v1::POD_STATE_LEAVING:
      view.status = "Running";
      break;
    case v1::POD_STATE_GONE:
      view.status = record->report().never_started()                                   ? "Pending"
                    : record->report().exit_code() == 0 && !record->report().evicted() ? "Succeeded"
                                                                                       : "Failed";
      break;
    default:
      break;
  }
  return view;
}

}  // namespace

std::vector<PodView> pods_of(const v1::WorkloadRecord& record, const v1::ClaimRecord& claim) {
  std::map<std::uint32_t, const v1::PodRecord*> known;
  for (const v1::PodRecord& pod : claim.pods()) known[pod.pod()] = &pod;
  std::uint32_t pods = 0;
  for (const v1::RoleSpec& role : record.spec().roles()) pods += role.pods();
  if (record.spec().product() != v1::PRODUCT_JOB) pods = 1;
  std::vector<PodView> views;
  for (std::uint32_t rank = 0; rank < pods; ++rank) {
    const auto it = known.find(rank);
    views.push_back(
        view_of(record.spec(), claim.index(), it == known.end() ? nullptr : it->second, rank));
    views.back().attempt = claim.attempt();
    views.back().idle = claim.claim_class() == v1::CLAIM_CLASS_IDLE;
    views.back().node_hidden = claim.foreign();
    if (claim.has_leaving_for()) views.back().sub_status = "Resource Preempted";
  }
  return views;
}

std::vector<PodView> pods_of(const v1::WorkloadRecord& record, const v1::AttemptRecord& attempt) {
  std::vector<PodView> views;
  for (const v1::PodRecord& pod : attempt.pods()) {
    views.push_back(view_of(record.spec(), attempt.index(), &pod, pod.pod()));
    views.back().attempt = attempt.attempt();
    views.back().idle = attempt.claim_class() == v1::CLAIM_CLASS_IDLE;
    if (attempt.has_preempt()) {
      views.back().sub_status = "Resource Preempted";
      views.back().status = "Failed";
    }
  }
  return views;
}

const v1::PodReport* find_pod(const v1::WorkloadRecord& record, const std::string& pod_id) {
  const v1::PodReport* found = nullptr;
  std::int64_t best = -1;
  const auto look = [&](const std::vector<PodView>& views, const auto& pods,
                        std::uint32_t attempt) {
    for (const PodView& view : views) {
      if (view.pod_id != pod_id) continue;
      for (const v1::PodRecord& pod : pods) {
        const auto [role, number] = role_of_rank(record.spec(), pod.pod());
        const bool same = record.spec().product() == v1::PRODUCT_SERVICE ||
                          pod_name(record.spec(), role, number) == pod_id;
        if (same && !pod.report().log_path().empty() && static_cast<std::int64_t>(attempt) > best) {
          found = &pod.report();
          best = attempt;
        }
      }
    }
  };
  for (const auto& attempt : record.history())
    look(pods_of(record, attempt), attempt.pods(), attempt.attempt());
  for (const auto& claim : record.claims())
    look(pods_of(record, claim), claim.pods(), claim.attempt());
  return found;
}

Json events_json(const v1::WorkloadRecord& record, std::int64_t from_ms, std::int64_t to_ms,
                 std::size_t at_most) {
  Json lines = Json::array();
  for (const v1::WorkloadEvent& event : record.events()) {
    if (event.wall_ms() < from_ms || event.wall_ms() > to_ms) continue;
    lines.push_back(time_text(event.wall_ms()) + " " + event.type() + " " + event.reason() + " " +
                    event.message());
  }
  while (lines.size() > at_most) lines.erase(lines.begin());
  return lines;
}

bool uses_idle(const v1::WorkloadRecord& record) {
  return std::any_of(
      record.claims().begin(), record.claims().end(), [](const v1::ClaimRecord& claim) {
        return claim.claim_class() == v1::CLAIM_CLASS_IDLE &&
               claim.phase() != v1::CLAIM_PHASE_WAITING && claim.phase() != v1::CLAIM_PHASE_GONE;
      });
}

std::pair<std::string, std::string> reason_of(const v1::WorkloadRecord& record) {
  if (!record.reason_code().empty() || !record.reason_message().empty()) {
    return {record.reason_code(), record.reason_message()};
  }
  if (!record.has_wait()) return {};
  static const std::map<v1::WaitCode, std::string> kCodes = {
      {v1::WAIT_CODE_QUOTA, "QuotaNotCovered"},
      {v1::WAIT_CODE_CAPACITY, "CapacityShort"},
      {v1::WAIT_CODE_NODE, "NoPlacement"},
      {v1::WAIT_CODE_ORDER, "BehindOthers"},
      {v1::WAIT_CODE_VICTIMS, "WaitsForVictims"}};
  const auto it = kCodes.find(record.wait().code());
  return {it == kCodes.end() ? "" : it->second, record.wait().sentence()};
}

Json request_of(const v1::WorkloadSpec& spec) {
  Json request = Json::parse(spec.request_json(), nullptr, false);
  return request.is_object() ? request : Json::object();
}

}  // namespace ebb::gateway
