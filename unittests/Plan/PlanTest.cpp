// SPDX-License-Identifier: Apache-2.0
// Plans survive the way through JSON, and hand-made mistakes are named.
#include "autopar/Plan/Plan.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace autopar {
namespace {

Plan samplePlan() {
  Plan plan;
  plan.clusterName = "cpux4";
  plan.deviceCount = 4;
  plan.meshes = {{"m0", {{"t", 2}}, {0, 1}}, {"m1", {{"t", 2}}, {2, 3}}};
  plan.stages = {{"s0", "m0", {"fc1", "act"}}, {"s1", "m1", {"fc2", "loss"}}};
  plan.ops["fc1"].factors = {{}, {"t"}, {}};
  plan.values["w1"].dims = {{}, {"t"}};
  plan.values["fc2"].dims = {{}, {}};
  plan.microBatches = 2;
  plan.schedule = "1f1b";
  plan.recompute = {"act", "act/reshard", "fc1/scaled/by.lhs"}; // made of operations
  plan.offloadActivations = {"act"};
  plan.believed = {118.4,          110.0,  115.0,     12,
                   {71680, 73728}, "auto", "optimal", {{"1 stage", 131.0}}};
  plan.believed.recomputeUs = 7.5;
  plan.believed.savedBytes = 4096;
  return plan;
}

std::string errorOf(const nlohmann::json &json) {
  Result<Plan> plan = Plan::fromJson(json.dump());
  return plan ? "" : plan.status().message();
}

nlohmann::json sampleJson() { return nlohmann::json::parse(samplePlan().toJson()); }

TEST(Plan, RoundTrip) {
  Plan plan = samplePlan();
  ASSERT_TRUE(plan.verify().isOk()) << plan.verify().message();
  Result<Plan> again = Plan::fromJson(plan.toJson());
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_TRUE(*again == plan);
  EXPECT_EQ(again->toJson(), plan.toJson());
}

TEST(Plan, FilesAreWrittenWhole) {
  std::string path = ::testing::TempDir() + "plan.json";
  ASSERT_TRUE(samplePlan().save(path).isOk());
  Result<Plan> plan = Plan::load(path);
  ASSERT_TRUE(plan.isOk());
  EXPECT_TRUE(*plan == samplePlan());
  EXPECT_EQ(Plan::load(path + ".none").status().code(), StatusCode::NoInput);
  EXPECT_EQ(samplePlan().save("/nowhere/plan.json").code(), StatusCode::CannotCreate);
}

TEST(Plan, ErrorsNameThePlace) {
  struct Case {
    const char *place, *value; ///< JSON pointer and JSON
    const char *says;
  };
  const Case cases[] = {
      {"/kind", R"("autopar.cluster")", "kind"},
      {"/surprise", "1", "surprise: unknown key"},
      {"/devices", "0", "devices: "},
      {"/time/micro_batches", "0", "micro_batches"},
      {"/ops/fc1/1", R"(["z"])", "ops.fc1.factors[1]: unknown axis 'z'"},
      {"/ops/ghost", "[]", "ops.ghost: is in no stage"},
      {"/shard/w1/0", R"(["t"])", "used twice"},
      {"/shard/w1", R"({"dims": [[], []], "partial": ["t"], "partial_kind": "sum"})",
       "shard.w1: expected a list of lists of axis names"},
      {"/ops/fc1/0", R"(["time"])", "ops.fc1.factors[0]: unknown axis 'time'; axes here: t"},
      {"/recompute", R"(["ghost"])", "recompute: op 'ghost' is in no stage"},
      {"/recompute", R"(["fc1/ghost"])", "recompute: op 'fc1/ghost' is in no stage"},
      {"/offload_activations", R"(["ghost"])", "offload_activations: op 'ghost' is in no stage"},
      {"/stages", "[]", "stages: is empty, expected at least one"},
      {"/stages/0/mesh", R"("nix")", "stages[0].mesh: 'nix' is not among meshes"},
      {"/stages/1/name", R"("s0")", "stages[1].name: 's0' appears twice"},
      {"/stages/1/ops", "[]", "stages[1].ops: is empty, but there are several stages"},
      {"/stages/1/ops/0", R"("fc1")", "stages[1].ops: op 'fc1' is already in a stage"},
      {"/meshes/m1/devices", "[1, 2]",
       "stages[1].mesh: shares some but not all devices with the mesh of stage 's0'"},
      {"/meshes/m0/devices", "[0, 9]", "mesh 'm0': device 9 is not in the cluster of 4 devices"},
      {"/meshes/m0/devices", "[1, 1]", "mesh 'm0': device 1 is listed twice"},
      {"/meshes/m0/devices", "[1]", "axes make 2 points, but 1 devices are listed"},
      {"/meshes/m0/axes/0/name", R"("time")", "'time' is not a name for an axis"},
      {"/meshes/m0/axes/1", R"({"name": "t", "size": 1})", "axis 't' appears twice"},
  };
  for (const Case &c : cases) {
    nlohmann::json json = sampleJson();
    json[nlohmann::json::json_pointer(c.place)] = nlohmann::json::parse(c.value);
    EXPECT_NE(errorOf(json).find(c.says), std::string::npos)
        << c.place << " = " << c.value << ": " << errorOf(json);
  }
}

TEST(Plan, StagesTakeTurnsOnMeshesOfAlikeAxes) {
  Plan plan = samplePlan();
  plan.stages.push_back({"s2", "m1", {"last"}});
  EXPECT_EQ(plan.stageMeshes().status().message(),
            "stage \"s2\" is on mesh \"m1\"; stages take turns, expected \"m0\"");
  plan = samplePlan();
  plan.stages[1].mesh = "m0";
  EXPECT_EQ(
      plan.stageMeshes().status().message(),
      "stage \"s1\" is on mesh \"m0\", as stage \"s0\" is; stages take turns on all 2 meshes, "
      "expected one that no stage before it is on");
  plan = samplePlan();
  plan.meshes = {{"m0", {{"t", 2}, {"d", 1}}, {0, 1}}, {"m1", {{"d", 2}, {"t", 1}}, {2, 3}}};
  EXPECT_NE(plan.stageMeshes().status().message().find("has its axes in another order than"),
            std::string::npos);
}

TEST(Plan, MustFitTheCluster) {
  EXPECT_TRUE(samplePlan().verify(Cluster::cpuRanks(4)).isOk());
  EXPECT_EQ(samplePlan().verify(Cluster::cpuRanks(2)).code(), StatusCode::Mismatch);
}

TEST(Plan, AnyMutationIsRefusedOrReadButNeverCrashes) {
  std::string text = samplePlan().toJson();
  for (size_t at = 0; at < text.size(); ++at)
    for (char with : {'{', '9', '"', ']', ' '}) {
      std::string changed = text;
      changed[at] = with;
      Result<Plan> plan = Plan::fromJson(changed);
      if (plan) {
        EXPECT_TRUE(plan->verify().isOk());
      }
    }
}

} // namespace
} // namespace autopar
