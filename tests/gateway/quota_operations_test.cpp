#include <doctest/doctest.h>

#include "tests/gateway/world.hpp"

using namespace ebb;
using namespace ebb::gateway;
using namespace ebb::gateway::testing;

TEST_CASE("CreateQuota: a root becomes whole nodes asked of the tenant") {
  World world;
  const auto answer = world.ask("POST", "/api/v1/quotas",
                                {{"QuotaName", "2"},
                                 {"ResourceType", "Lingjun"},
                                 {"Min", {{"NodeSpecs", {{{"Type", "A100"}, {"Count", 4}}}}}}});
  REQUIRE(answer.status == 200);
  const std::string id = answer.body["QuotaId"];
  CHECK(id.starts_with("quota"));
  CHECK(id.size() == 5 + 26);
  CHECK(answer.body["RequestId"].get<std::string>().size() == 36);
  const auto& root = world.last_to("tenant").tenant().command().create_root();
  CHECK(root.spec().quota_id() == id);
  CHECK(root.spec().root_id() == id);
  CHECK(root.spec().pool() == "pool/" + id);
  CHECK(root.spec().resource_type() == "Lingjun");
  REQUIRE(root.nodes_size() == 1);
  CHECK(root.nodes(0).node_type() == "A100");
  CHECK(root.nodes(0).nodes() == 4);
}

TEST_CASE("CreateQuota: a child's cores and memory follow its GPUs in the node's proportion") {
  World world;
  const auto answer =
      world.ask("POST", "/api/v1/quotas/",
                {{"QuotaName", "1.3"},
                 {"ParentQuotaId", "quotaroot"},
                 {"Min", {{"GPU", "12"}, {"GPUType", "A100"}}},
                 {"QuotaConfig",
                  {{"EnableSubQuotaPreemption", true},
                   {"SubQuotaPreemptionConfig",
                    {{"PreemptedProducts", {"DLC"}}, {"PreemptedPriorityUpperBound", 5}}}}}});
  REQUIRE(answer.status == 200);
  const auto& child = world.last_to("quota/quotaroot").quota().command().create_child();
  CHECK(child.parent_id() == "quotaroot");
  CHECK(child.pool() == "pool/quotaroot");
  REQUIRE(child.guarantee_size() == 1);
  CHECK(child.guarantee(0).node_type() == "A100");
  CHECK(child.guarantee(0).amount().gpu_milli() == 12'000);
  CHECK(child.guarantee(0).amount().cpu_milli() == 192'000);  // 12 of 8 GPUs with 128 cores
  CHECK(child.guarantee(0).amount().memory_bytes() == (std::int64_t{3} << 39));
  CHECK(child.child_preemption());
  REQUIRE(child.child_filter().products_size() == 1);
  CHECK(child.child_filter().products(0) == v1::PRODUCT_JOB);
  CHECK(child.child_filter().priority_at_most() == 5);
}

TEST_CASE("CreateQuota: every refusal names field, value and what is allowed") {
  struct Row {
    Json body;
    int status;
    const char* code;
    const char* message;
  };
  const auto child = [](Json min) {
    return Json{{"QuotaName", "x"}, {"ParentQuotaId", "quotaroot"}, {"Min", std::move(min)}};
  };
  const char* gpu_allowed = "; 0 to 1000000 GPUs with at most three decimals are allowed";
  const std::string minus = std::string("Min.GPU is \"-1\"") + gpu_allowed;
  const std::string minus_number = std::string("Min.GPU is -1") + gpu_allowed;
  const std::string huge = std::string("Min.GPU is 9223372036854775808") + gpu_allowed;
  const std::string dots = std::string("Min.GPU is \"1.5.0\"") + gpu_allowed;
  const std::string nan = std::string("Min.GPU is \"NaN\"") + gpu_allowed;
  const Row rows[] = {
      {child({{"GPU", "-1"}}), 400, "InvalidParameter", minus.c_str()},
      {child({{"GPU", -1}}), 400, "InvalidParameter", minus_number.c_str()},
      {child({{"GPU", 9'223'372'036'854'775'808U}}), 400, "InvalidParameter", huge.c_str()},
      {child({{"GPU", "1.5.0"}}), 400, "InvalidParameter", dots.c_str()},
      {child({{"GPU", "NaN"}}), 400, "InvalidParameter", nan.c_str()},
      {child({{"GPU", true}}), 400, "InvalidParameter", "Min.GPU is true; a string is expected"},
      {child({{"GPU", 8}, {"GPUType", "H100"}}), 400, "InvalidParameter",
       "Min.GPUType is \"H100\"; the tree has A100 (16 nodes, largest 8 GPU, 128 CPU, 1024Gi)"},
      {child({{"NodeSpecs", {{{"Type", "A1OO"}, {"Count", 1}}}}}), 400, "InvalidParameter",
       "Min.NodeSpecs[0].Type is \"A1OO\"; the tree has A100 (16 nodes, largest 8 GPU, 128 CPU, "
       "1024Gi)"},
      {{{"QuotaName", "x"}, {"ParentQuotaId", "nope"}, {"Min", {{"GPU", 1}}}},
       404,
       "NotFound",
       "there is no quota \"nope\""},
      {{{"QuotaName", "1.1"}, {"ParentQuotaId", "quotaroot"}, {"Min", {{"GPU", 1}}}},
       409,
       "DuplicateName",
       "QuotaName \"1.1\" is taken by quota quota11"},
      {{{"QuotaName", "a b"}, {"Min", {{"NodeSpecs", {{{"Type", "A100"}, {"Count", 1}}}}}}},
       400,
       "InvalidParameter",
       "QuotaName is \"a b\"; 1 to 64 letters, digits, `_ . -` are allowed, a letter or digit "
       "first"},
      {{{"QuotaName", "x"}, {"Min", {{"GPU", 8}}}},
       400,
       "InvalidParameter",
       "Min.GPU is 8; a root quota is made of whole nodes: give Min.NodeSpecs {Type, Count}"},
      {{{"QuotaName", "x"}, {"Min", {{"NodeSpecs", {{{"Type", "A100"}, {"Count", -1}}}}}}},
       400,
       "InvalidParameter",
       "Min.NodeSpecs[0].Count is -1; a whole number from 0 to 1000000 is allowed"},
      {{{"QuotaNmae", "x"}},
       400,
       "InvalidParameter",
       "QuotaNmae is not a parameter of CreateQuota; did you mean QuotaName?"},
      {{{"QuotaName", "x"}, {"ClusterSpec", {{"Image", "i"}}}},
       400,
       "UnsupportedParameter",
       "ClusterSpec of CreateQuota is not supported by Ebb; leave it out"},
      {{{"QuotaName", "x"}, {"QuotaConfig", {{"UserVpc", Json::object()}}}},
       400,
       "UnsupportedParameter",
       "QuotaConfig.UserVpc of CreateQuota is not supported by Ebb; leave it out"},
      {{{"QuotaName", "x"}, {"QueueStrategy", "PaiStrategyBalanced"}},
       400,
       "InvalidParameter",
       "QueueStrategy is \"PaiStrategyBalanced\"; allowed: PaiStrategyIntelligent, "
       "PaiStrategyBalance, "
       "PaiStrategyRoundRobin, PaiStrategyStrictFIFO, Backfill, LeastArea; did you mean "
       "PaiStrategyBalance?"},
  };
  for (const Row& row : rows) {
    World world;
    CAPTURE(row.body.dump());
    const auto answer = world.ask("POST", "/api/v1/quotas", row.body);
    CHECK(answer.status == row.status);
    CHECK(answer.code() == row.code);
    CHECK(answer.message() == row.message);
    CHECK(answer.body["HttpStatusCode"] == row.status);
    CHECK(answer.body["RequestId"].get<std::string>().size() == 36);
  }
}

TEST_CASE("ScaleQuota: Min is the wanted amount, sent to the parent, with or without victims") {
  World world;
  auto answer = world.ask("PUT", "/api/v1/quotas/quota11/action/scale",
                          {{"Min", {{"GPU", 56}}}, {"ScalePolicy", "Preempt"}});
  REQUIRE(answer.status == 200);
  const auto& scale = world.last_to("quota/quotaroot").quota().command().scale_children();
  CHECK(scale.preempt());
  REQUIRE(scale.quotas_size() == 1);
  CHECK(scale.quotas(0).quota_id() == "quota11");
  CHECK(scale.quotas(0).guarantee(0).amount().gpu_milli() == 56'000);

  answer = world.ask("POST", "/ebb/v1/quotas/scale",
                     {{"Quotas",
                       {{{"QuotaId", "quota11"}, {"Min", {{"GPU", 56}}}},
                        {{"QuotaId", "quota12"}, {"Min", {{"GPU", 72}}}}}}});
  REQUIRE(answer.status == 200);
  const auto& both = world.last_to("quota/quotaroot").quota().command().scale_children();
  CHECK(!both.preempt());
  REQUIRE(both.quotas_size() == 2);
  CHECK(both.quotas(1).guarantee(0).amount().gpu_milli() == 72'000);
}

TEST_CASE("ListQuotas: a tree comes parents first, with children and bound workspaces") {
  World world;
  const auto answer = world.ask("GET", "/api/v1/quotas/?LayoutMode=Tree");
  REQUIRE(answer.status == 200);
  CHECK(answer.body["TotalCount"] == 3);
  REQUIRE(answer.body["Quotas"].size() == 3);
  CHECK(answer.body["Quotas"][0]["QuotaName"] == "1");
  CHECK(answer.body["Quotas"][0]["SubQuotas"].size() == 2);
  CHECK(answer.body["Quotas"][0]["Min"]["NodeSpecs"][0]["Count"] == 16);
  CHECK(answer.body["Quotas"][1]["Min"]["GPU"] == "48");
  CHECK(world.ask("GET", "/api/v1/quotas?PageSize=2&PageNumber=2").body["Quotas"].size() == 1);
  CHECK(world.ask("GET", "/api/v1/quotas?PageSize=501").message() ==
        "PageSize is 501; a whole number from 1 to 500 is allowed");
  CHECK(world.ask("GET", "/api/v1/quotas?PageSize=ten").message() ==
        "PageSize is \"ten\"; a number is expected");
  CHECK(world.ask("GET", "/api/v1/quotas?GPUType=A100").code() == "UnsupportedParameter");
}

TEST_CASE("DeleteQuota: a quota bound to a workspace is kept, and the workspace is named") {
  World world;
  v1::WorkspaceRecord workspace;
  workspace.mutable_spec()->set_id("wsb");
  workspace.mutable_spec()->set_name("workspace_b");
  workspace.add_quotas()->set_quota_id("quota11");
  world.post.record("workspace/wsb", "WorkspaceRecord", workspace);
  const auto answer = world.ask("DELETE", "/api/v1/quotas/quota11");
  CHECK(answer.status == 409);
  CHECK(answer.message() == "quota 1.1 is bound to workspace workspace_b; unbind it first");
  CHECK(world.ask("DELETE", "/api/v1/quotas/quota12").status == 200);
  CHECK(world.last_to("quota/quotaroot").quota().command().delete_child() == "quota12");
}
