// SPDX-License-Identifier: Apache-2.0
// What differs is told by group, equal layers once.
#include "autopar/Report/ComparePlans.h"

#include <gtest/gtest.h>

namespace autopar {
namespace {

Plan samplePlan() {
  Plan plan;
  plan.clusterName = "cpux4";
  plan.deviceCount = 4;
  plan.meshes = {{"mesh", {{"x", 4}}, {0, 1, 2, 3}}};
  plan.stages = {{"s0", "mesh", {}}};
  for (const char *name : {"h.0.w", "h.1.w", "b"})
    plan.values[name].dims = {{"x"}, {}};
  plan.ops["fc"].factors = {{"x"}, {}};
  plan.believed.stepUs = 1500;
  plan.believed.peakBytes = {1 << 20};
  plan.believed.time = {{"compute", {}, 1500, 0}};
  return plan;
}

TEST(ComparePlans, EqualPlansDifferInNothing) {
  EXPECT_TRUE(comparePlans(samplePlan(), samplePlan()).empty());
  EXPECT_EQ(differencesAsText({}), "");
  EXPECT_NE(differencesAsJson({}).find("\"equal\": true"), std::string::npos);
}

TEST(ComparePlans, EveryKindOfDifferenceIsFound) {
  Plan a = samplePlan(), b = samplePlan();
  b.meshes = {{"mesh", {{"x", 2}, {"y", 2}}, {0, 1, 2, 3}}};
  b.microBatches = 8;
  b.recompute = {"h.0.act", "h.1.act"};
  a.offload = {"h.0.w/mean", "b/mean"};
  b.offload = {"b/mean"};
  a.offloadActivations = {"h.0.fc", "h.1.fc"};
  b.values["h.0.w"].dims = b.values["h.1.w"].dims = {{}, {"x", "y"}};
  b.values.erase("b");
  b.ops["fc"].factors = {{}, {"y"}};
  b.believed.stepUs = 900;
  b.believed.time = {{"compute", {}, 600, 0}, {"all_reduce", {"x"}, 300, 64}};
  b.believed.peakBytes = {3 << 20};
  EXPECT_EQ(differencesAsText(comparePlans(a, b)), "mesh:\n"
                                                   "  x=4 | x=2xy=2\n"
                                                   "micro-batches:\n"
                                                   "  1 | 8\n"
                                                   "recompute:\n"
                                                   "  h.*.act (2): kept | recomputed\n"
                                                   "offload:\n"
                                                   "  h.*.w/mean: host memory | device\n"
                                                   "offload_activations:\n"
                                                   "  h.*.fc (2): host memory | device\n"
                                                   "shardings:\n"
                                                   "  b: [x, -] | -\n"
                                                   "  h.*.w (2): [x, -] | [-, x*y]\n"
                                                   "operations:\n"
                                                   "  fc: [x, -] | [-, y]\n"
                                                   "time:\n"
                                                   "  step: 1.500 ms | 900.0 us\n"
                                                   "  all_reduce over [x]: 0.0 us | 300.0 us\n"
                                                   "  compute: 1.500 ms | 600.0 us\n"
                                                   "memory:\n"
                                                   "  peak: 1.0 MiB | 3.0 MiB\n");
}

TEST(ComparePlans, StagesThatCutElsewhereDiffer) {
  Plan a = samplePlan();
  a.meshes = {{"m0", {{"x", 2}}, {0, 1}}, {"m1", {{"x", 2}}, {2, 3}}};
  a.stages = {{"s0", "m0", {"a", "b"}}, {"s1", "m1", {"c"}}};
  Plan b = a;
  b.stages = {{"s0", "m0", {"a"}}, {"s1", "m1", {"b", "c"}}};
  auto found = comparePlans(a, b);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].a, "2 operations, a to b");
  EXPECT_EQ(found[0].b, "1 operations, a to a");
}

} // namespace
} // namespace autopar
