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
  plan.ops["fc1"].factors = {{"time"}, {"t"}, {}};
  plan.values["w1"] = {{{}, {"t"}}, {}, ""};
  plan.values["fc2"] = {{{}, {}}, {"t"}, "sum"};
  plan.microBatches = 2;
  plan.schedule = "1f1b";
  plan.recompute = {"act"};
  plan.believed = {118.4, 110.0, 115.0, {71680, 73728}, "auto", "optimal", {{"1 stage", 131.0}}};
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
  EXPECT_EQ(plan.stageOfOp("fc2"), 1);
  EXPECT_EQ(plan.stageOfOp("nobody"), -1);
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
  nlohmann::json json = sampleJson();
  json["ops"]["fc1"][1] = {"z"};
  EXPECT_NE(errorOf(json).find("ops.fc1.factors[1]: unknown axis 'z'"), std::string::npos)
      << errorOf(json);
  json = sampleJson();
  json["shard"]["w1"][0] = {"t"};
  EXPECT_NE(errorOf(json).find("used twice"), std::string::npos) << errorOf(json);
  json = sampleJson();
  json["meshes"]["m1"]["devices"] = {1, 2};
  EXPECT_NE(errorOf(json).find("stages[1].mesh"), std::string::npos) << errorOf(json);
  json = sampleJson();
  json["stages"][0]["mesh"] = "nix";
  EXPECT_NE(errorOf(json).find("stages[0].mesh"), std::string::npos);
  json = sampleJson();
  json["stages"][1]["ops"].push_back("fc1");
  EXPECT_NE(errorOf(json).find("already in a stage"), std::string::npos);
  json = sampleJson();
  json["ops"]["ghost"] = nlohmann::json::array();
  EXPECT_NE(errorOf(json).find("ops.ghost"), std::string::npos);
  json = sampleJson();
  json["meshes"]["m0"]["devices"] = {0, 9};
  EXPECT_NE(errorOf(json).find("device 9"), std::string::npos);
  json = sampleJson();
  json["surprise"] = 1;
  EXPECT_NE(errorOf(json).find("surprise: unknown key"), std::string::npos);
  json = sampleJson();
  json["kind"] = "autopar.cluster";
  EXPECT_NE(errorOf(json).find("kind"), std::string::npos);
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
