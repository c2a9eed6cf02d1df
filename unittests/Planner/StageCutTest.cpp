// SPDX-License-Identifier: Apache-2.0
// The stage cut against trying every cut, with unequal sub-meshes of several device types; what it
// says of memory that does not suffice; and its time at 128 layers and 50 stages.
#include "autopar/Planner/StageCut.h"

#include <ctime>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "autopar/Planner/CostGraph.h"

namespace autopar {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// GPipe: all micro-batches are in flight everywhere.
std::function<int64_t(int32_t)> inFlightGPipe(int64_t microBatches) {
  return [microBatches](int32_t) { return microBatches; };
}

/// 1F1B: one more with each stage behind, at most all.
std::function<int64_t(int32_t)> inFlight1F1B(int64_t microBatches) {
  return [microBatches](int32_t after) { return std::min<int64_t>(microBatches, after + 1); };
}

/// What trying every cut finds.
struct Tried {
  double timeUs = kNone;
  int64_t missing = std::numeric_limits<int64_t>::max(); ///< of the cut that misses the least
};

/// Places stages from layer `begin` on; `stages` holds (begin, end, sub-mesh).
void tryCuts(const StageCutProblem &problem, int32_t begin, std::vector<int32_t> &left,
             std::vector<std::array<int32_t, 3>> &stages, Tried &tried) {
  if (begin < problem.layers) {
    for (int32_t end = begin + 1; end <= problem.layers; ++end)
      for (size_t k = 0; k < problem.subMeshes.size(); ++k) {
        const SubMesh &mesh = problem.subMeshes[k];
        bool enough = true;
        for (size_t t = 0; t < left.size(); ++t)
          enough = (left[t] -= mesh.devices[t]) >= 0 && enough;
        stages.push_back({begin, end, static_cast<int32_t>(k)});
        if (enough)
          tryCuts(problem, end, left, stages, tried);
        stages.pop_back();
        for (size_t t = 0; t < left.size(); ++t)
          left[t] += mesh.devices[t];
      }
    return;
  }
  auto count = static_cast<int32_t>(stages.size());
  if (count < problem.leastStages || (problem.mostStages > 0 && count > problem.mostStages))
    return;
  for (int32_t idle : left)
    if (problem.useAllDevices && idle > 0)
      return;
  double sum = 0, slowest = 0;
  int64_t missing = 0;
  for (int32_t s = 0; s < count; ++s) {
    auto [first, last, k] = stages[static_cast<size_t>(s)];
    StageCost cost = problem.cost(first, last, k);
    int32_t only = problem.subMeshes[static_cast<size_t>(k)].stagesAfter;
    if (isForbidden(cost.timeUs) || (only >= 0 && only != count - 1 - s))
      return;
    int64_t held =
        cost.stateBytes + cost.workspaceBytes + problem.inFlight(count - 1 - s) * cost.savedBytes;
    int64_t limit = problem.subMeshes[static_cast<size_t>(k)].memoryBytes;
    if (limit > 0)
      missing = std::max(missing, held - limit);
    sum += cost.timeUs;
    slowest = std::max(slowest, cost.timeUs);
  }
  tried.missing = std::min(tried.missing, missing);
  if (missing == 0)
    tried.timeUs =
        std::min(tried.timeUs, sum + static_cast<double>(problem.microBatches - 1) * slowest);
}

/// Ranges cost what a table drawn at random says: nothing about them is regular.
StageCutProblem randomProblem(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](int bound) { return static_cast<int32_t>(random() % uint64_t(bound)); };
  StageCutProblem problem;
  problem.layers = 1 + below(6);
  int types = 1 + below(2);
  for (int t = 0; t < types; ++t)
    problem.devices.push_back(1 + below(5));
  int meshes = 1 + below(3);
  for (int k = 0; k < meshes; ++k) {
    SubMesh mesh{"mesh " + std::to_string(k), std::vector<int32_t>(size_t(types), 0), 0};
    if (below(8) > 0)
      mesh.memoryBytes = 10 + below(70);
    mesh.devices[size_t(below(types))] = 1 + below(2);
    if (below(4) == 0)
      ++mesh.devices[size_t(below(types))];
    problem.subMeshes.push_back(mesh);
  }
  auto costs = std::make_shared<std::vector<StageCost>>();
  for (int i = 0; i < 7 * 7 * 3; ++i) {
    int length = 1 + i % 7;
    costs->push_back({below(9) == 0 ? kForbidden : double(below(30) * length), below(20),
                      below(10) * length, below(10)});
  }
  problem.cost = [costs](int32_t begin, int32_t end, int32_t k) {
    return (*costs)[size_t((begin * 7 + (end - begin - 1)) + 49 * k)];
  };
  problem.microBatches = 1 + below(6);
  problem.inFlight =
      below(2) ? inFlight1F1B(problem.microBatches) : inFlightGPipe(problem.microBatches);
  problem.useAllDevices = below(4) == 0;
  problem.leastStages = below(4) == 0 ? 2 : 1;
  problem.mostStages = below(4) == 0 ? problem.leastStages + below(3) : 0;
  if (problem.mostStages > 0)
    for (SubMesh &mesh : problem.subMeshes)
      mesh.stagesAfter = below(3) == 0 ? below(problem.mostStages) : -1;
  return problem;
}

TEST(StageCut, EqualsTryingEveryCut) {
  int fits = 0, misses = 0, none = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    StageCutProblem problem = randomProblem(seed);
    Tried tried;
    std::vector<int32_t> left = problem.devices;
    std::vector<std::array<int32_t, 3>> stages;
    tryCuts(problem, 0, left, stages, tried);
    Result<StageCut> cut = cutStages(problem);
    if (tried.missing == std::numeric_limits<int64_t>::max()) {
      ++none;
      ASSERT_FALSE(cut.isOk()) << "seed " << seed;
      continue;
    }
    ASSERT_TRUE(cut.isOk()) << "seed " << seed << ": " << cut.status().message();
    ASSERT_EQ(cut->missingBytes, tried.missing) << "seed " << seed;
    if (tried.missing == 0)
      ASSERT_DOUBLE_EQ(cut->timeUs, tried.timeUs) << "seed " << seed;
    (tried.missing == 0 ? fits : misses) += 1;
  }
  EXPECT_GT(fits, 1000);
  EXPECT_GT(misses, 300);
  EXPECT_GT(none, 100);
}

/// Costs of ranges of layers of drawn times on 1, 2, 4, ... devices of `largest`. What one
/// micro-batch sends across a border, there and back, is paid by both of its ends.
std::function<StageCost(int32_t, int32_t, int32_t)> rangeCosts(int layers, int largest,
                                                               uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<StageCost> sums(1); // of the first layers
  for (int i = 0; i < layers; ++i)
    sums.push_back({sums.back().timeUs + 900.0 + double(random() % 200), 100 * (i + 1),
                    sums.back().savedBytes + 10 + int64_t(random() % 5), 7});
  std::vector<double> borderUs;
  for (int i = 0; i <= layers; ++i)
    borderUs.push_back(5 + double(500 + random() % 1000) / 100);
  borderUs.front() = borderUs.back() = 0;
  return [=](int32_t begin, int32_t end, int32_t subMesh) {
    const StageCost &from = sums[size_t(begin)], &to = sums[size_t(end)];
    int devices = 1 << subMesh;
    double us = (to.timeUs - from.timeUs) / devices * (1 + 0.05 * (devices - 1));
    return StageCost{us + 2 * (borderUs[size_t(begin)] + borderUs[size_t(end)]),
                     (to.stateBytes - from.stateBytes) / devices,
                     (to.savedBytes - from.savedBytes) / devices, 7};
  };
}

StageCutProblem chain(int layers, int devices, int largest, int64_t memory, int64_t microBatches) {
  StageCutProblem problem;
  problem.layers = layers;
  problem.devices = {devices};
  for (int size = 1; size <= largest; size *= 2)
    problem.subMeshes.push_back({"1x" + std::to_string(size), {size}, memory});
  problem.cost = rangeCosts(layers, largest, 7);
  problem.microBatches = microBatches;
  problem.inFlight = inFlight1F1B(microBatches);
  return problem;
}

/// Of the processor, which does not grow when others use it too.
double seconds(const StageCutProblem &problem, size_t &stages) {
  std::clock_t start = std::clock();
  Result<StageCut> cut = cutStages(problem);
  EXPECT_TRUE(cut.isOk());
  stages = cut->stages.size();
  EXPECT_EQ(cut->missingBytes, 0);
  double taken = double(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%d layers, %d devices, %zu sub-meshes: %zu stages, %lld programs, %.4f s\n",
              problem.layers, problem.devices[0], problem.subMeshes.size(), stages,
              static_cast<long long>(cut->programs), taken);
  return taken;
}

TEST(StageCut, ManyLayersInATenthOfASecond) {
  size_t stages = 0;
  double best = kNone;
  StageCutProblem fifty = chain(128, 50, 1, 0, 512);
  fifty.useAllDevices = true;
  for (int run = 0; run < 3; ++run)
    best = std::min(best, seconds(fifty, stages));
  EXPECT_EQ(stages, 50u);
  // Memory that binds at the first stages, which hold most micro-batches.
  best = std::max(best, seconds(chain(128, 50, 1, 1700, 512), stages));
  EXPECT_LT(best, 0.1);
  // Sub-meshes of 1, 2, 4 and 8 devices.
  EXPECT_LT(seconds(chain(128, 64, 8, 1200, 256), stages), 0.5);
}

TEST(StageCut, MissingMemoryIsWhatItTakes) {
  StageCutProblem problem = chain(32, 8, 2, 500, 16);
  Result<StageCut> cut = cutStages(problem);
  ASSERT_TRUE(cut.isOk());
  ASSERT_GT(cut->missingBytes, 0);
  int64_t least = 500 + cut->missingBytes;
  Result<StageCut> enough = cutStages(chain(32, 8, 2, least, 16));
  Result<StageCut> tooLittle = cutStages(chain(32, 8, 2, least - 1, 16));
  ASSERT_TRUE(enough.isOk() && tooLittle.isOk());
  EXPECT_EQ(enough->missingBytes, 0);
  EXPECT_EQ(tooLittle->missingBytes, 1);
}

TEST(StageCut, FasterDevicesGetMoreLayers) {
  StageCutProblem problem;
  problem.layers = 12;
  problem.devices = {1, 1};
  problem.subMeshes = {{"fast", {1, 0}, 0}, {"slow", {0, 1}, 0}};
  problem.cost = [](int32_t begin, int32_t end, int32_t k) {
    return StageCost{(end - begin) * (k == 0 ? 1.0 : 3.0), 0, 0, 0};
  };
  problem.microBatches = 100;
  problem.inFlight = inFlightGPipe(100);
  Result<StageCut> cut = cutStages(problem);
  ASSERT_TRUE(cut.isOk());
  ASSERT_EQ(cut->stages.size(), 2u);
  for (const CutStage &stage : cut->stages)
    EXPECT_EQ(stage.end - stage.begin, stage.subMesh == 0 ? 9 : 3);
  EXPECT_DOUBLE_EQ(cut->timeUs, 18 + 99 * 9);
}

TEST(StageCut, WhatIsBesideASlowestLayerIsSharedEvenly) {
  StageCutProblem problem;
  problem.layers = 13;
  problem.devices = {4};
  problem.subMeshes = {{"one", {1}, 100}};
  problem.cost = [](int32_t begin, int32_t end, int32_t) {
    StageCost cost{double(end - begin), 0, end - begin, 0};
    cost.timeUs += end == 13 ? 10 : 0; // the head takes as long as eleven layers
    return cost;
  };
  problem.microBatches = 8;
  problem.inFlight = inFlight1F1B(8);
  problem.leastStages = problem.mostStages = 4;
  auto sizes = [&] {
    Result<StageCut> cut = cutStages(problem);
    EXPECT_TRUE(cut.isOk());
    EXPECT_DOUBLE_EQ(cut->timeUs, 23 + 7 * 11);
    std::vector<int32_t> sizes;
    for (const CutStage &stage : cut->stages)
      sizes.push_back(stage.end - stage.begin);
    return sizes;
  };
  EXPECT_EQ(sizes(), (std::vector<int32_t>{4, 4, 4, 1}));
  // The first stage can hold four micro-batches of three layers, the second three of four.
  problem.subMeshes.front().memoryBytes = 14;
  EXPECT_EQ(sizes(), (std::vector<int32_t>{3, 4, 5, 1}));
}

TEST(StageCut, RefusesWhatIsMalformed) {
  StageCutProblem good = chain(4, 2, 2, 0, 4), bad = good;
  bad.subMeshes[1].devices = {1, 1};
  EXPECT_EQ(cutStages(bad).status().message(), "sub-mesh '1x2': counts 2 device types, expected 1");
  bad = good;
  bad.inFlight = [](int32_t after) { return 8 - after; };
  EXPECT_EQ(cutStages(bad).status().message(),
            "stage cut: with 1 stages behind, fewer micro-batches are in flight than with one "
            "stage less; expected at least as many");
  bad = good;
  bad.leastStages = 3;
  EXPECT_EQ(cutStages(bad).status().message(),
            "stage cut: the layers cannot be cut into stages that the sub-meshes and the devices "
            "there are allow, whatever the memory");
}

} // namespace
} // namespace autopar
