// SPDX-License-Identifier: Apache-2.0
// What plans, degrees and schedules must not say: each refusal, whole.
#include "autopar/Plan/Degrees.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace autopar {
namespace {

using Json = nlohmann::json;

/// Two stages on two meshes.
Plan samplePlan() {
  Plan plan;
  plan.clusterName = "cpux4";
  plan.deviceCount = 4;
  plan.meshes = {{"m0", {{"t", 2}}, {0, 1}}, {"m1", {{"t", 2}}, {2, 3}}};
  plan.stages = {{"s0", "m0", {"fc1"}}, {"s1", "m1", {"fc2"}}};
  plan.ops["fc1"].factors = {{"t"}};
  plan.values["fc1"].dims = {{"t"}};
  plan.believed.peakBytes = {1};
  return plan;
}

TEST(Refusals, PlanFiles) {
  struct {
    const char *pointer;
    Json value;
    const char *message;
  } mistakes[] = {
      {"/ops/fc1", "t", "ops.fc1: expected a list of lists of axis names"},
      {"/ops/fc1/0", "t", "ops.fc1[0]: expected a list of axis names"},
      {"/ops/fc1/0/0", 1, "ops.fc1[0]: expected an axis name"},
      {"/meshes/m0/devices/0", "first", "meshes.m0.devices[0]: expected a device number"},
      {"/believed/peak_bytes/0", "much", "believed.peak_bytes: expected a list of integers"},
      {"/time", 1, "time: expected an object, found number"},
      {"/believed", 1, "believed: expected an object, found number"},
      {"/devices", 0, "devices: expected an integer in [1, 16777216], found 0"},
      {"/version", 2, "version: expected 1, found 2; convert the file or use the matching release"},
  };
  for (auto &[pointer, value, message] : mistakes) {
    Json json = Json::parse(samplePlan().toJson());
    json[Json::json_pointer(pointer)] = value;
    EXPECT_EQ(Plan::fromJson(json.dump()).status().message(), message);
  }
}

TEST(Refusals, PlansThatWereBuilt) {
  auto errorOf = [](void (*change)(Plan &)) {
    Plan plan = samplePlan();
    change(plan);
    return plan.verify().message();
  };
  EXPECT_EQ(errorOf([](Plan &) {}), "");
  EXPECT_EQ(errorOf([](Plan &plan) { plan.deviceCount = 0; }), "devices: is 0, expected 1 to 2^24");
  EXPECT_EQ(errorOf([](Plan &plan) { plan.microBatches = 0; }),
            "time.micro_batches: is 0, expected at least 1");
  EXPECT_EQ(errorOf([](Plan &plan) { plan.meshes[1].name = "m0"; }),
            "meshes: 'm0' is empty or appears twice");
  EXPECT_EQ(samplePlan().verify(*Cluster::preset("h100x8")).message(),
            "plan is for 4 devices, cluster 'h100x8' has 8; search again for this cluster");
}

TEST(Refusals, Degrees) {
  struct {
    const char *key;
    Json value;
    const char *message;
  } mistakes[] = {
      {"virtual_stages", 2, "virtual_stages: is 2, which needs a \"pipeline\" of at least 2"},
      {"sequence", true, "sequence: is true, which needs \"tensor\" ranks to share the positions"},
      {"zero", 3, "zero: is 3, which needs \"data\" or \"context\" ranks that share the state"},
      {"zero", 4, "zero: expected an integer in [0, 3], found 4"},
      {"micro_batch", 0, "micro_batch: expected an integer in [1, 16777216], found 0"},
  };
  for (auto &[key, value, message] : mistakes) {
    Json json{{"kind", "degrees"}, {"version", 1}, {key, value}};
    EXPECT_EQ(Degrees::fromJson(json.dump()).status().message(), message);
  }
  auto errorOfExperts = [](int64_t experts, int64_t expertTensor) {
    Json json{{"kind", "degrees"},
              {"data", 8},
              {"tensor", 4},
              {"expert_tensor", expertTensor},
              {"experts", experts}};
    return Degrees::fromJson(json.dump()).status().message();
  };
  EXPECT_EQ(errorOfExperts(3, 4),
            "experts: is 3, which does not divide the 8 \"data\" ranks that share them");
  EXPECT_EQ(errorOfExperts(16, 2),
            "expert_tensor: is 2; expected 1, for whole experts, or the 4 \"tensor\" ranks");
  EXPECT_EQ(errorOfExperts(6, 1), "experts: is 6, which is no multiple of the 4 \"tensor\" ranks: "
                                  "with an \"expert_tensor\" of 1 all of them share the experts");
  EXPECT_EQ(errorOfExperts(12, 1),
            "experts: is 12: that is 3 for each of the 4 \"tensor\" ranks, which does not divide "
            "the 8 \"data\" ranks that share them");
  EXPECT_EQ(errorOfExperts(16, 1), "");
  Degrees degrees;
  degrees.source = "megatron.json";
  degrees.data = 4;
  degrees.tensor = 2;
  EXPECT_EQ(degrees.checkRanks(4).message(),
            "megatron.json: data, context, tensor, pipeline: 4 x 1 x 2 x 1 ranks, but there are 4");
  EXPECT_EQ(degrees.constraints(6).status().message(),
            "megatron.json: data: is 4, which does not divide the batch of 6 samples");
  degrees.microBatch = 3;
  EXPECT_EQ(degrees.constraints(32).status().message(),
            "megatron.json: micro_batch: is 3, which does not divide the 8 samples that each of 4 "
            "data ranks has");
}

TEST(Refusals, SchedulesThatCannotBeMade) {
  auto errorOf = [](const char *name, int64_t stages, int64_t meshes, int64_t microBatches) {
    return makeSchedule(name, stages, meshes, microBatches, true).status().message();
  };
  EXPECT_EQ(errorOf("2f2b", 2, 2, 2),
            "there is no schedule '2f2b'; there are gpipe, 1f1b, eager-1f1b, interleaved, "
            "zero-bubble, interleaved-zero-bubble, "
            "overlapped-1f1b, overlapped-interleaved");
  EXPECT_EQ(errorOf("1f1b", 3, 2, 2), "schedule '1f1b': 3 stages on 2 meshes; expected a multiple");
  EXPECT_EQ(errorOf("interleaved", 2, 2, 2),
            "schedule 'interleaved': needs several stages per mesh, got 2 stages on 2 meshes");
  EXPECT_EQ(errorOf("1f1b", 4, 2, 2), "schedule '1f1b': takes one stage per mesh, got 4 stages on "
                                      "2 meshes; 'interleaved' takes several");
  EXPECT_EQ(errorOf("interleaved", 4, 2, 3), "schedule 'interleaved': needs a number of "
                                             "micro-batches that 2 meshes divide, got 3");
  constexpr int64_t wide = (int64_t(1) << 32) + 2; // 2 in 32 bits
  EXPECT_EQ(errorOf("1f1b", wide, 2, 2), "schedule '1f1b': 4294967298 stages with 2 micro-batches; "
                                         "expected a product of at most 16777216");
  EXPECT_EQ(errorOf("1f1b", 2, 2, wide), "schedule '1f1b': 2 stages with 4294967298 micro-batches; "
                                         "expected a product of at most 16777216");
}

TEST(Refusals, SchedulesWithoutSense) {
  auto errorOf = [](void (*change)(Schedule &)) {
    Schedule schedule = *makeSchedule("1f1b", 2, 2, 2, true);
    change(schedule);
    return schedule.verify().message();
  };
  EXPECT_EQ(errorOf([](Schedule &s) { s.stages = 3; }),
            "schedule '1f1b': 3 stages on 2 meshes with 2 micro-batches; expected the stages to be "
            "a multiple of the meshes");
  EXPECT_EQ(errorOf([](Schedule &s) { s.rows.pop_back(); }),
            "schedule '1f1b': has rows for 1 meshes, expected 2");
  EXPECT_EQ(errorOf([](Schedule &s) { s.rows[0][0].microBatch = 2; }),
            "schedule '1f1b': has no place for F of stage 0, micro-batch 2");
  EXPECT_EQ(errorOf([](Schedule &s) { s.rows[0][0].stage = 1; }),
            "schedule '1f1b': F of stage 1, micro-batch 0 is on mesh 0, expected 1");
  EXPECT_EQ(errorOf([](Schedule &s) { s.rows[0][1] = s.rows[0][0]; }),
            "schedule '1f1b': F of stage 0, micro-batch 0 appears twice");
  EXPECT_EQ(errorOf([](Schedule &s) { std::swap(s.rows[0][0], s.rows[0][1]); }),
            "schedule '1f1b': F of stage 0, micro-batch 1 comes where micro-batch 0 was expected");
  EXPECT_EQ(errorOf([](Schedule &s) { s.rows[0].pop_back(); }),
            "schedule '1f1b': has 7 rows, expected 8");
  EXPECT_EQ(errorOf([](Schedule &s) { std::swap(s.rows[1][0], s.rows[1][1]); }),
            "schedule '1f1b' comes to a standstill: mesh 0 waits at B of stage 0, micro-batch 0");
}

} // namespace
} // namespace autopar
