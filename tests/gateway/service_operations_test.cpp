#include <doctest/doctest.h>

#include "gateway/translation/service_json.hpp"
#include "tests/gateway/world.hpp"

using namespace ebb;
using namespace ebb::gateway;
using namespace ebb::gateway::testing;

namespace {

Json a_service() {
  return {
      {"name", "chat"},
      {"metadata",
       {{"instance", 4},
        {"gpu", 4},
        {"cpu", 32},
        {"memory", 262'144},
        {"quota_id", "quotaroot"},
        {"workspace_id", "wsb"}}},
      {"containers",
       {{{"script", "exec serve"}, {"port", 8'000}, {"env", {{{"name", "M"}, {"value", "s"}}}}}}}};
}

Json cron_with(const char* pointer, const Json& value) {
  Json cron = {{"ScaleJobs",
                {{{"Name", "up"},
                  {"Schedule", "0 0 8 * * *"},
                  {"TargetSize", 16},
                  {"TimeZone", "Asia/Shanghai"}}}},
               {"ExcludeDates", Json::array()}};
  if (pointer != nullptr) cron[Json::json_pointer(pointer)] = value;
  return cron;
}

/// A running service named chat, known to lists and as an actor.
void add_service(World& world) {
  v1::WorkloadRecord record;
  record.mutable_spec()->set_id("eas-1");
  record.mutable_spec()->set_product(v1::PRODUCT_SERVICE);
  record.mutable_spec()->set_name("chat");
  record.mutable_spec()->set_quota_id("quotaroot");
  record.mutable_spec()->add_roles()->mutable_each()->set_gpu_milli(4'000);
  record.mutable_spec()->mutable_roles(0)->set_role("Replica");
  record.mutable_spec()->mutable_roles(0)->set_pods(1);
  record.set_status("Running");
  record.set_replicas_wanted(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto* claim = record.add_claims();
    claim->set_index(i);
    claim->set_wanted(true);
    claim->set_phase(i == 0 ? v1::CLAIM_PHASE_RUNNING : v1::CLAIM_PHASE_WAITING);
    if (i > 0) continue;
    auto* pod = claim->add_pods();
    pod->mutable_place()->set_node("n1");
    pod->mutable_report()->set_state(v1::POD_STATE_RUNNING);
    pod->mutable_report()->set_port(40'001);
    pod->mutable_report()->set_host("127.0.0.1");
  }
  world.post.answers("service/eas-1", record);
  world.post.record("service/eas-1", "WorkloadRecord", record);
}

}  // namespace

TEST_CASE("CreateService: the document becomes a workload with replicas") {
  World world;
  const auto answer = world.ask("POST", "/api/v2/services", a_service());
  REQUIRE_MESSAGE(answer.status == 200, answer.message());
  CHECK(answer.body["ServiceName"] == "chat");
  CHECK(answer.body["ServiceId"].get<std::string>().starts_with("eas-"));
  const auto& spec =
      world.last_to("workspace/wsb").workspace().command().create_workload().workload();
  CHECK(spec.product() == v1::PRODUCT_SERVICE);
  CHECK(spec.replicas() == 4);
  CHECK(spec.roles(0).pods() == 1);
  CHECK(spec.roles(0).each().gpu_milli() == 4'000);
  CHECK(spec.roles(0).each().memory_bytes() == (std::int64_t{262'144} << 20));
  CHECK(spec.roles(0).launch().port() == 8'000);
  CHECK(spec.roles(0).launch().env().at("M") == "s");
}

TEST_CASE("CreateService: replicas that can never fit are refused at once, with the numbers") {
  World world;
  Json service = a_service();
  service["metadata"]["gpu"] = 9;
  CHECK(world.ask("POST", "/api/v2/services", service).message() ==
        "metadata.instance asks for 4 pods of 9 GPU, 32 CPU, 256Gi at once; no node can ever hold "
        "one: the "
        "quota's tree has A100 "
        "(16 nodes, largest 8 GPU, 128 CPU, 1024Gi)");
  service = a_service();
  service["metadata"]["instance"] = 33;
  CHECK(world.ask("POST", "/api/v2/services", service).message() ==
        "metadata.instance asks for 33 pods of 4 GPU, 32 CPU, 256Gi at once; all nodes together "
        "hold at "
        "most 32: the quota's tree "
        "has A100 (16 nodes, largest 8 GPU, 128 CPU, 1024Gi)");
  add_service(world);
  CHECK(world.ask("PUT", "/api/v2/services/any/chat/scale", {{"Instance", 33}}).code() ==
        "NeverFits");
  CHECK(world.ask("PUT", "/api/v2/services/any/chat/scale", {{"Instance", 16}}).status == 200);
  CHECK(world.last_to("service/eas-1").workload().command().scale() == 16);
}

TEST_CASE(
    "UpdateService: only the number of replicas can change, everything else is refused by name") {
  World world;
  add_service(world);
  CHECK(world.ask("PUT", "/api/v2/services/r/chat", {{"metadata", {{"instance", 3}}}}).status ==
        200);
  CHECK(world.last_to("service/eas-1").workload().command().scale() == 3);
  CHECK(world.ask("PUT", "/api/v2/services/r/chat", {{"metadata", {{"cpu", 3}}}}).message() ==
        "metadata.cpu of UpdateService is not supported by Ebb; leave it out");
  CHECK(world.ask("PUT", "/api/v2/services/r/chat", Json::object()).message() ==
        "metadata.instance is missing; only the number of replicas can be changed");
}

TEST_CASE("cron scaler: what is right becomes a command, what is wrong names field and value") {
  World world;
  add_service(world);
  const std::string path = "/api/v2/services/r/chat/cronscaler";
  REQUIRE(world.ask("POST", path, cron_with(nullptr, nullptr)).status == 200);
  const auto& cron = world.last_to("service/eas-1").workload().command().set_cron();
  REQUIRE(cron.jobs_size() == 1);
  CHECK(cron.jobs(0).target_size() == 16);
  CHECK(cron.jobs(0).time_zone() == "Asia/Shanghai");
  CHECK(world.ask("PUT", path, cron_with(nullptr, nullptr)).message() ==
        "service chat has no cron scaler");
  struct Row {
    const char* pointer;
    Json value;
    const char* begins;
  };
  const Row rows[] = {
      {"/ScaleJobs/0/Schedule", "0 8 * * *",
       "ScaleJobs[0].Schedule \"0 8 * * *\": it has 5 fields; a cron expression has six"},
      {"/ScaleJobs/0/Schedule", "0 0 8 * * * 2026",
       "ScaleJobs[0].Schedule \"0 0 8 * * * 2026\": it has 7 fields; a cron expression has six"},
      {"/ScaleJobs/0/TimeZone", "Mars/Olympus", "ScaleJobs[0].TimeZone is \"Mars/Olympus\""},
      {"/ScaleJobs/0/TargetSize", -1,
       "ScaleJobs[0].TargetSize is -1; a whole number from 0 to 100000 is allowed"},
      {"/ScaleJobs/0/TargetSize", nullptr, "ScaleJobs[0].TargetSize is missing; it must be given"},
      {"/ExcludeDates/0", "x", "ExcludeDates[0] \"x\": it has 1 fields"},
      {"/ScaleJobs", Json::array(), "ScaleJobs is []; 1 to 100 must be given"},
  };
  for (const Row& row : rows) {
    const auto answer = world.ask("POST", path, cron_with(row.pointer, row.value));
    CHECK(answer.status == 400);
    CHECK_MESSAGE(answer.message().starts_with(row.begins), answer.message());
  }
}

TEST_CASE("cron scaler: a moment that is no firing of the schedule is not shown as one") {
  v1::WorkloadRecord record;
  auto* job = record.mutable_cron()->add_jobs();
  job->set_schedule("0 0 8 * * *");
  job->set_time_zone("UTC");
  job->set_target_size(16);
  job->set_last_fired_wall_ms(1'767'254'399'000);  // 2026-01-01T07:59:59Z: looked for from then on
  CHECK(cron_scaler_json(record)["ScaleJobs"][0]["State"] == "Submitted");
  CHECK(cron_scaler_json(record)["ScaleJobs"][0]["LastProbeTime"] == "");
  job->set_last_fired_wall_ms(1'767'254'400'000);
  CHECK(cron_scaler_json(record)["ScaleJobs"][0]["State"] == "Succeed");
  CHECK(cron_scaler_json(record)["ScaleJobs"][0]["LastProbeTime"] == "2026-01-01T08:00:00Z");
}

TEST_CASE("DeleteWorkspaceResource, DeleteMembers: each id is one command to the workspace") {
  World world;
  auto answer =
      world.ask("DELETE", "/api/v1/workspaces/wsb/resources?ResourceIds=wsb-quota11,quota12");
  REQUIRE_MESSAGE(answer.status == 200, answer.message());
  CHECK(answer.body["ResourceIds"] == Json{"quota11", "quota12"});
  CHECK(world.last_to("workspace/wsb").workspace().command().unbind_quota() == "quota12");
  CHECK(world.ask("DELETE", "/api/v1/workspaces/wsb/members?MemberIds=ada").status == 200);
  CHECK(world.last_to("workspace/wsb").workspace().command().remove_member() == "ada");
  CHECK(world.ask("DELETE", "/api/v1/workspaces/wsb/members").message() ==
        "MemberIds is missing; it must be given");
  CHECK(world.ask("DELETE", "/api/v1/workspaces/none/members?MemberIds=ada").status == 404);
}

TEST_CASE("ListServiceInstances: each replica by itself, with where it answers") {
  World world;
  add_service(world);
  const auto answer = world.ask("GET", "/api/v2/services/r/chat/instances");
  REQUIRE(answer.body["Instances"].size() == 2);
  CHECK(answer.body["Instances"][0]["Status"] == "Running");
  CHECK(answer.body["Instances"][0]["InstancePort"] == 40'001);
  CHECK(answer.body["Instances"][0]["InstanceName"] == "eas-1-replica-0");
  CHECK(answer.body["Instances"][1]["Status"] == "Pending");
  const auto service = world.ask("GET", "/api/v2/services/r/eas-1");
  CHECK(service.body["RunningInstance"] == 1);
  CHECK(service.body["PendingInstance"] == 1);
  CHECK(world.ask("GET", "/api/v2/services/r/none").message() == "there is no service \"none\"");
  CHECK(world.ask("GET", "/api/v2/services").body["Services"][0]["ServiceName"] == "chat");
}

TEST_CASE("CreateInstance: a request becomes a workload of one pod") {
  World world;
  const Json body = {{"InstanceName", "notebook"},
                     {"ResourceId", "quota12"},
                     {"WorkspaceId", "wsb"},
                     {"RequestedResource", {{"GPU", "1"}, {"CPU", "8"}, {"Memory", "64Gi"}}}};
  const auto answer = world.ask("POST", "/api/v2/instances", body);
  REQUIRE_MESSAGE(answer.status == 200, answer.message());
  CHECK(answer.body["Success"] == true);
  const auto& spec =
      world.last_to("workspace/wsb").workspace().command().create_workload().workload();
  CHECK(spec.id() == answer.body["InstanceId"]);
  CHECK(spec.roles(0).each().gpu_milli() == 1'000);
  CHECK(spec.roles(0).launch().command(2) == "exec sleep infinity");
  Json bad = body;
  bad["RequestedResource"]["GPU"] = "9";
  CHECK(world.ask("POST", "/api/v2/instances", bad).code() == "NeverFits");
  bad = body;
  bad["CloudDisks"] = Json::array();
  CHECK(world.ask("POST", "/api/v2/instances", bad).message() ==
        "CloudDisks of CreateInstance is not supported by Ebb; leave it out");
}
