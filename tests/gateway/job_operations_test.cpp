#include <doctest/doctest.h>

#include "tests/gateway/world.hpp"

using namespace ebb;
using namespace ebb::gateway;
using namespace ebb::gateway::testing;

namespace {

Json a_job() {
  return {{"DisplayName", "train-7"},
          {"JobType", "PyTorchJob"},
          {"ResourceId", "quota11"},
          {"WorkspaceId", "wsb"},
          {"UserCommand", "exec python3 train.py"},
          {"Priority", 3},
          {"Envs", {{"STEPS", "1000"}}},
          {"JobSpecs",
           {{{"Type", "Worker"},
             {"PodCount", 2},
             {"ResourceConfig", {{"GPU", "8"}, {"CPU", "64"}, {"Memory", "512Gi"}}}}}},
          {"Settings",
           {{"OversoldType", "AcceptQuotaOverSold"}, {"TerminationGracePeriodSeconds", 20}}}};
}

/// The job with one field replaced; a null erases it.
Json a_job_with(const char* pointer, const Json& value) {
  Json job = a_job();
  job[Json::json_pointer(pointer)] = value;
  return job;
}

void accept_workloads(World& world) {
  world.post.actors["workspace/wsb"] = [](const v1::Envelope& envelope) {
    v1::Reply reply;
    if (envelope.workspace().command().has_describe()) {
      v1::WorkspaceRecord workspace;
      workspace.mutable_spec()->set_id("wsb");
      reply.set_body(workspace.SerializeAsString());
    } else {
      reply.set_id(envelope.workspace().command().create_workload().workload().id());
    }
    return reply;
  };
}

}  // namespace

TEST_CASE("CreateJob: a request becomes a workload of its workspace") {
  World world;
  accept_workloads(world);
  const auto answer = world.ask("POST", "/api/v1/jobs", a_job());
  REQUIRE_MESSAGE(answer.status == 200, answer.message());
  const std::string id = answer.body["JobId"];
  CHECK(id.starts_with("dlc"));
  const auto& create = world.last_to("workspace/wsb").workspace().command().create_workload();
  const v1::WorkloadSpec& spec = create.workload();
  CHECK(spec.id() == id);
  CHECK(spec.product() == v1::PRODUCT_JOB);
  CHECK(spec.name() == "train-7");
  CHECK(spec.quota_id() == "quota11");
  CHECK(spec.pool() == "pool/quotaroot");
  CHECK(spec.priority() == 3);
  CHECK(spec.idle() == v1::IDLE_MODE_ACCEPTED);
  CHECK(spec.grace_period_ms() == 20'000);
  CHECK(spec.created_wall_ms() == world.post.clock_ms);
  REQUIRE(spec.roles_size() == 1);
  CHECK(spec.roles(0).pods() == 2);
  CHECK(spec.roles(0).each().gpu_milli() == 8'000);
  CHECK(spec.roles(0).each().cpu_milli() == 64'000);
  CHECK(spec.roles(0).each().memory_bytes() == 549'755'813'888);
  REQUIRE(spec.roles(0).launch().command_size() == 3);
  CHECK(spec.roles(0).launch().command(2) == "exec python3 train.py");
  CHECK(spec.roles(0).launch().env().at("STEPS") == "1000");
}

TEST_CASE("CreateJob: every refusal names field, value and what is allowed") {
  struct Row {
    Json body;
    int status;
    std::string message;
  };
  const std::string tree = "the quota's tree has A100 (16 nodes, largest 8 GPU, 128 CPU, 1024Gi)";
  const std::string gpu = "; 0 to 1000000 GPUs with at most three decimals are allowed";
  const std::string at = "JobSpecs[0].ResourceConfig.GPU is ";
  const char* pods = "/JobSpecs/0/PodCount";
  const char* gpus = "/JobSpecs/0/ResourceConfig/GPU";
  const Row rows[] = {
      {a_job_with("/Priority", 0), 400, "Priority is 0; a whole number from 1 to 9 is allowed"},
      {a_job_with("/Priority", 10), 400, "Priority is 10; a whole number from 1 to 9 is allowed"},
      {a_job_with("/Priority", 1.5), 400, "Priority is 1.5; a whole number from 1 to 9 is allowed"},
      {a_job_with("/Priority", "3"), 400, "Priority is \"3\"; a number is expected"},
      {a_job_with(gpus, -1), 400, at + "-1" + gpu},
      {a_job_with(gpus, 9'223'372'036'854'775'808U), 400, at + "9223372036854775808" + gpu},
      {a_job_with(gpus, "1.5.0"), 400, at + "\"1.5.0\"" + gpu},
      {a_job_with(gpus, "NaN"), 400, at + "\"NaN\"" + gpu},
      {a_job_with(gpus, "1.5"), 400, at + "\"1.5\"; more than one GPU must be whole GPUs"},
      {a_job_with(gpus, "0.5"), 400,
       at + "\"0.5\"; whole GPUs are allowed: quota 1.1 has EnableGPUShare off"},
      {a_job_with(gpus, 9), 400,
       "JobSpecs[0] asks for 2 pods of 9 GPU, 64 CPU, 512Gi at once; no node can ever hold one: " +
           tree},
      {a_job_with(pods, 17), 400,
       "JobSpecs[0] asks for 17 pods of 8 GPU, 64 CPU, 512Gi at once; all nodes together hold at "
       "most 16: " +
           tree},
      {a_job_with(pods, 0), 400,
       "JobSpecs[0].PodCount is 0; a whole number from 1 to 10000 is allowed"},
      {a_job_with("/JobSpecs/0/ResourceConfig/GPUType", "H100"), 400,
       "JobSpecs[0].ResourceConfig.GPUType is \"H100\"; " + tree},
      {a_job_with("/JobSpecs/0/Type", "Head"), 400,
       "JobSpecs[0].Type is \"Head\"; allowed: Master, Worker"},
      {a_job_with("/JobType", "PyTorch"), 400,
       "JobType is \"PyTorch\"; allowed: ElasticBatchJob, MPIJob, PyTorchJob, RayJob, TFJob, "
       "XGBoostJob; "
       "did you mean PyTorchJob?"},
      {a_job_with("/DisplayName", "a b"), 400,
       "DisplayName is \"a b\"; 1 to 256 letters, digits, `_ . -` are allowed, a letter or digit "
       "first"},
      {a_job_with("/ResourceId", "nope"), 404, "there is no quota \"nope\""},
      {a_job_with("/WorkspaceId", "nope"), 404, "there is no workspace \"nope\""},
      {a_job_with("/ResourceId", "quota11/../x"), 404, "there is no quota \"quota11/../x\""},
      {a_job_with("/UserCommand", nullptr), 400, "UserCommand is missing; it must be given"},
      {a_job_with("/CodeSource", {{"Branch", "main"}}), 400,
       "CodeSource of CreateJob is not supported by Ebb; leave it out"},
      {a_job_with("/Settings/EnableTideResource", true), 400,
       "Settings.EnableTideResource of CreateJob is not supported by Ebb; leave it out"},
      {a_job_with("/Settings/Oversoldtype", "x"), 400,
       "Settings.Oversoldtype is not a parameter of CreateJob; did you mean OversoldType?"},
      {a_job_with("/Settings/OversoldType", "Accept"), 400,
       "Settings.OversoldType is \"Accept\"; allowed: ForbiddenQuotaOverSold, AcceptQuotaOverSold, "
       "ForceQuotaOverSold"},
      {a_job_with("/Envs/STEPS", 1'000), 400, "Envs.STEPS is 1000; a string is expected"},
  };
  for (const Row& row : rows) {
    World world;
    accept_workloads(world);
    const auto answer = world.ask("POST", "/api/v1/jobs", row.body);
    CAPTURE(row.message);
    CHECK(answer.status == row.status);
    CHECK(answer.message() == row.message);
  }
}

TEST_CASE("CreateJob: a workspace's refusal reaches the caller as it is") {
  World world;
  world.post.actors["workspace/wsb"] = [](const v1::Envelope& envelope) {
    v1::Reply reply;
    if (envelope.workspace().command().has_describe()) return reply;
    reply.mutable_refusal()->set_code("QuotaNotBound");
    reply.mutable_refusal()->set_message("quota 1.1 is not bound to workspace_b");
    reply.mutable_refusal()->set_http_status(403);
    return reply;
  };
  const auto answer = world.ask("POST", "/api/v1/jobs", a_job());
  CHECK(answer.status == 403);
  CHECK(answer.code() == "QuotaNotBound");
  CHECK(answer.message() == "quota 1.1 is not bound to workspace_b");
}

TEST_CASE("CreateJob: while the store is full new work is refused with 503") {
  World world;
  world.post.memory().set_full(true);
  world.post.record("quota/x", "QuotaRecord", v1::QuotaRecord{});
  const auto answer = world.ask("POST", "/api/v1/jobs", a_job());
  CHECK(answer.status == 503);
  CHECK(answer.code() == "StoreFull");
}

namespace {

v1::WorkloadRecord a_record(const std::string& id, const std::string& name,
                            const std::string& status, std::int64_t created_ms) {
  v1::WorkloadRecord record;
  record.mutable_spec()->set_id(id);
  record.mutable_spec()->set_product(v1::PRODUCT_JOB);
  record.mutable_spec()->set_name(name);
  record.mutable_spec()->set_quota_id("quota11");
  record.mutable_spec()->set_workspace_id("wsb");
  record.mutable_spec()->set_job_type("PyTorchJob");
  record.mutable_spec()->set_created_wall_ms(created_ms);
  record.mutable_spec()->set_request_json(a_job().dump());
  auto* role = record.mutable_spec()->add_roles();
  role->set_role("Worker");
  role->set_pods(2);
  role->mutable_each()->set_gpu_milli(8'000);
  record.set_status(status);
  return record;
}

}  // namespace

TEST_CASE("GetJob: an evicted job shows why it waits, its pods and their earlier attempts") {
  World world;
  auto record = a_record("dlc1", "train-7", "Queuing", world.post.clock_ms - 60'000);
  record.mutable_wait()->set_code(v1::WAIT_CODE_QUOTA);
  record.mutable_wait()->set_sentence(
      "quota 1.1 has 8 of 48 GPUs free, the gang needs 16; position 3");
  auto* claim = record.add_claims();
  claim->set_attempt(2);
  claim->set_phase(v1::CLAIM_PHASE_WAITING);
  auto* earlier = record.add_history();
  earlier->set_attempt(1);
  earlier->set_claim_class(v1::CLAIM_CLASS_IDLE);
  earlier->mutable_preempt()->set_reason(v1::PREEMPT_REASON_IDLE_RECLAIMED);
  earlier->mutable_preempt()->set_sentence("the owner needs its GPUs");
  auto* pod = earlier->add_pods();
  pod->set_pod(1);
  pod->mutable_place()->set_node("n3");
  pod->mutable_report()->set_state(v1::POD_STATE_GONE);
  pod->mutable_report()->set_evicted(true);
  world.post.answers("job/dlc1", record);

  const auto answer = world.ask("GET", "/api/v1/jobs/dlc1", nullptr, "2020-12-03");
  REQUIRE(answer.status == 200);
  CHECK(answer.body["Status"] == "Queuing");
  CHECK(answer.body["ReasonCode"] == "QuotaNotCovered");
  CHECK(answer.body["ReasonMessage"] ==
        "quota 1.1 has 8 of 48 GPUs free, the gang needs 16; position 3");
  CHECK(answer.body["GmtCreateTime"] == "2025-12-31T23:59:00Z");
  CHECK(answer.body["WorkspaceName"] == "workspace_b");
  REQUIRE(answer.body["Pods"].size() == 2);
  CHECK(answer.body["Pods"][1]["PodId"] == "dlc1-worker-1");
  CHECK(answer.body["Pods"][1]["Status"] == "Pending");
  REQUIRE(answer.body["Pods"][1]["HistoryPods"].size() == 1);
  CHECK(answer.body["Pods"][1]["HistoryPods"][0]["SubStatus"] == "Resource Preempted");
  CHECK(answer.body["Pods"][1]["HistoryPods"][0]["ResourceType"] == "Oversold");
  CHECK(answer.body["RestartRecord"][0]["Reason"] == "the owner needs its GPUs");
  CHECK(world.ask("GET", "/api/v1/jobs/dlc2").message() == "there is no job \"dlc2\"");
  CHECK(world.ask("GET", "/api/v1/jobs/quota11").status == 404);
}

TEST_CASE("ListJobs: filters, sorts and pages; without a time range the last seven days") {
  World world;
  const std::int64_t now = world.post.clock_ms;
  const std::int64_t day = 86'400'000;
  world.post.record("job/dlca", "WorkloadRecord", a_record("dlca", "alpha", "Running", now - day));
  world.post.record("job/dlcb", "WorkloadRecord",
                    a_record("dlcb", "beta", "Queuing", now - 2 * day));
  world.post.record("job/dlcc", "WorkloadRecord",
                    a_record("dlcc", "alphabet", "Queuing", now - 8 * day));
  const auto names = [&](const std::string& query) {
    const auto answer = world.ask("GET", "/api/v1/jobs" + query);
    std::string text = std::to_string(answer.body.value("TotalCount", -1)) + ":";
    for (const Json& job : answer.body.value("Jobs", Json::array())) {
      text += " " + job["DisplayName"].get<std::string>();
    }
    return answer.status == 200 ? text : answer.message();
  };
  CHECK(names("") == "2: alpha beta");
  CHECK(names("?StartTime=2025-12-01T00:00:00Z") == "3: alpha beta alphabet");
  CHECK(names("?StartTime=2025-12-01T00:00:00Z&SortBy=DisplayName&Order=asc") ==
        "3: alpha alphabet beta");
  CHECK(names("?StartTime=2025-12-01T00:00:00Z&DisplayName=ALPHA") == "2: alpha alphabet");
  CHECK(names("?DisplayName=alpha&DisplayNameSearchMode=Exact") == "1: alpha");
  CHECK(names("?Status=Queuing,Running&PageSize=1&PageNumber=2") == "2: beta");
  CHECK(names("?JobIds=dlcc") == "1: alphabet");
  CHECK(names("?ResourceQuotaName=1.1") == "2: alpha beta");
  CHECK(names("?ResourceQuotaName=none") == "0:");
  CHECK(names("?DisplayName=%' OR 1=1") == "0:");
  CHECK(names("?StartTime=yesterday") ==
        "StartTime is \"yesterday\"; a time such as 2026-01-31T08:00:00Z is allowed");
  CHECK(names("?Order=up") == "Order is \"up\"; asc or desc is allowed");
  CHECK(names("?SortBy=Colour").starts_with("SortBy is \"Colour\"; allowed: DisplayName, "));
  CHECK(names("?Statuss=Running") ==
        "Statuss is not a parameter of ListJobs; did you mean Status?");
  CHECK(names("?PipelineId=x") == "PipelineId of ListJobs is not supported by Ebb; leave it out");

  auto gone = a_record("dlca", "alpha", "Stopped", now - day);
  gone.set_removed(true);
  world.post.record("job/dlca", "WorkloadRecord", gone);
  CHECK(names("") == "1: beta");
}

TEST_CASE("UpdateJob, StopJob, DeleteJob: each is one command to the job") {
  World world;
  world.post.answers("job/dlc1", a_record("dlc1", "train", "Running", 1));
  CHECK(world.ask("PUT", "/api/v1/jobs/dlc1", {{"Priority", 7}}).body["JobId"] == "dlc1");
  CHECK(world.last_to("job/dlc1").workload().command().update().priority() == 7);
  CHECK(world.ask("PUT", "/api/v1/jobs/dlc1", {{"Priority", 10}}).message() ==
        "Priority is 10; a whole number from 1 to 9 is allowed");
  CHECK(world.ask("POST", "/api/v1/jobs/dlc1/stop").status == 200);
  CHECK(world.last_to("job/dlc1").workload().command().stop());
  CHECK(world.ask("DELETE", "/api/v1/jobs/dlc1").status == 200);
  CHECK(world.last_to("job/dlc1").workload().command().remove());
  CHECK(world.ask("DELETE", "/api/v1/jobs/dlc2").message() == "there is no workload \"dlc2\"");
}

TEST_CASE("routes: version, then path, then method decide; what Ebb does not serve is named") {
  World world;
  CHECK(world.ask("GET", "/api/v1/jobs/dlc1/metrics").message() ==
        "operation GetJobMetrics is not supported by Ebb");
  CHECK(world.ask("GET", "/api/v1/jobs/dlc1/metrics").status == 501);
  CHECK(world.ask("PATCH", "/api/v1/jobs").status == 405);
  CHECK(world.ask("GET", "/api/v1/jbos").status == 404);
  CHECK(world.ask("GET", "/api/v1/jobs", nullptr, "2022-01-12").status == 404);
  CHECK(world.ask("GET", "/api/v1/resources").body.contains("ResourceGroups"));
  CHECK(world.ask("GET", "/workspace/api/v1/resources").body.contains("Resources"));
  CHECK(world.ask("GET", "/api/v1/resources", nullptr, "2021-02-04").body.contains("Resources"));
  CHECK(world.ask("GET", "/workspace/api/v1/jobs").status == 404);
}
