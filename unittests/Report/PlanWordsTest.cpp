// SPDX-License-Identifier: Apache-2.0
// Plans are told in the field's words.
#include "autopar/Report/PlanWords.h"

#include <gtest/gtest.h>

namespace autopar {

void PrintTo(const PlanWord &word, std::ostream *out) { *out << word.what << ": " << word.how; }

namespace {

constexpr int64_t kGiB = int64_t(1) << 30;

Plan planOf(std::vector<AxisUse> axes) {
  Plan plan;
  plan.meshes = {{"mesh", {}, {}}};
  for (const AxisUse &use : axes)
    plan.meshes[0].axes.push_back({use.axis, 4});
  plan.stages = {{"s0", "mesh", {}}};
  plan.believed.axes = std::move(axes);
  plan.believed.stepUs = 2000;
  return plan;
}

TEST(PlanWords, AnAxisIsNamedByWhatItDivides) {
  EXPECT_EQ(planWords(planOf({{"a", 1, 0, 0, 0},
                              {"b", 0.1, 0, 0, 0.9},
                              {"c", 0, 0.998, 0, 0},
                              {"d", 0.6, 0, 0.3, 0},
                              {"e", 0, 0.2, 0, 0.8},
                              {"f", 0, 0, 0, 0}})),
            (std::vector<PlanWord>{
                {"a = 4", "data parallel"},
                {"b = 4", "tensor parallel (90 % of the compute), data parallel (10 %)"},
                {"c = 4", "context parallel"},
                {"d = 4", "data parallel (60 % of the compute), expert parallel (30 %), not "
                          "divided (10 %)"},
                {"e = 4", "tensor parallel (80 % of the compute), sequence parallel (20 %)"},
                {"f = 4", "not divided"}}));
}

TEST(PlanWords, AnAxisThatStagesHaveInDifferentSizesAndNobodyCosted) {
  Plan plan = planOf({});
  plan.meshes = {{"m0", {{"data", 2}, {"one", 1}}, {}}, {"m1", {{"data", 3}}, {}}};
  EXPECT_EQ(planWords(plan), (std::vector<PlanWord>{{"data = 2 or 3", ""}}));
}

TEST(PlanWords, PartsOfStateAreThoseOfZero) {
  Plan plan = planOf({{"x", 1, 0, 0, 0}});
  plan.believed.state = {{32 * kGiB, 64 * kGiB, 1, 3.76}};
  plan.believed.memoryLimit = 80 * kGiB;
  std::vector<PlanWord> words = planWords(plan);
  ASSERT_EQ(words.size(), 4u);
  EXPECT_EQ(words[1], (PlanWord{"parameters", "32.0 GiB on a rank, as they are used"}));
  EXPECT_EQ(words[2],
            (PlanWord{"optimizer state", "1/3.76 of 64.0 GiB on a rank (as ZeRO-1 and 2 do)"}));
  EXPECT_EQ(words[3], (PlanWord{"not in parts", "they would take 96.0 GiB of a device, which may "
                                                "hold 80.0 GiB"}));
  plan.believed.state[0].parameterParts = 4;
  EXPECT_EQ(planWords(plan)[1].how,
            "1/4 of 32.0 GiB on a rank, gathered where they are used (as ZeRO-3 and FSDP do)");
  EXPECT_EQ(planWords(plan)[2].how, "1/3.76 of 64.0 GiB on a rank");
}

TEST(PlanWords, StateIsOfTheMeshWhoseDevicesHoldMost) {
  Plan plan = planOf({});
  plan.meshes = {{"m0", {}, {}}, {"m1", {}, {}}};
  plan.believed.state = {{8 * kGiB, 0, 4, 1}, {4 * kGiB, 0, 1, 1}};
  EXPECT_EQ(planWords(plan),
            (std::vector<PlanWord>{{"parameters", "4.00 GiB on a rank of m1, as they are used"}}));
}

TEST(PlanWords, StagesRecomputationAndOffload) {
  Plan plan = planOf({});
  plan.meshes = {{"m0", {}, {}}, {"m1", {}, {}}};
  plan.stages = {{"s0", "m0", {"a"}}, {"s1", "m1", {"b"}}};
  plan.schedule = "1f1b";
  plan.microBatches = 8;
  plan.believed.time = {{"waiting", {}, 200, 0}};
  plan.recompute = {"a"};
  plan.believed.recomputeUs = 100;
  plan.believed.savedBytes = 3 * kGiB / 2;
  plan.offload = {"w/mean", "w/square"};
  EXPECT_EQ(
      planWords(plan),
      (std::vector<PlanWord>{
          {"pipeline", "2 stages on 2 groups of ranks, schedule 1f1b, 8 micro-batches; 10 % of "
                       "the step is bubble and messages that nothing hides"},
          {"recomputation", "1 operation again in the backward pass: 100 us of the step for "
                            "1.50 GiB of the peak"},
          {"offload", "2 states lie in host memory, stored and fetched in each step"}}));
  plan.believed.savedBytes = -1;
  plan.offloadActivations = {"b"};
  std::vector<PlanWord> words = planWords(plan);
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(words[1].how, "1 operation again in the backward pass: 100 us of the step for nothing "
                          "of the peak");
  EXPECT_EQ(words[2].how, "2 states and results of 1 operation lie in host memory, stored and "
                          "fetched in each step");
}

} // namespace
} // namespace autopar
