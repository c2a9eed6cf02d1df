// SPDX-License-Identifier: Apache-2.0
// Cuts whose stages take turns, against trying every cut.
#include "autopar/Planner/StageCut.h"

#include <algorithm>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "autopar/Planner/CostGraph.h"

namespace autopar {
namespace {

TurnCutProblem problemOf(const std::vector<double> &layers, int32_t stages, int32_t meshes,
                         int64_t microBatches) {
  TurnCutProblem problem;
  problem.layers = static_cast<int32_t>(layers.size());
  problem.stages = stages;
  problem.meshes = meshes;
  problem.microBatches = microBatches;
  problem.timeUs = [layers](int32_t begin, int32_t end, int32_t) {
    double us = 0;
    for (int32_t layer = begin; layer < end; ++layer)
      us += layers[static_cast<size_t>(layer)];
    return us;
  };
  return problem;
}

double timeOf(const TurnCutProblem &problem, const std::vector<int32_t> &begins) {
  std::vector<double> meshes(static_cast<size_t>(problem.meshes), 0);
  double slowest = 0;
  for (int32_t stage = 0; stage < problem.stages; ++stage) {
    auto next = static_cast<size_t>(stage) + 1;
    double us = problem.timeUs(begins[next - 1],
                               next < begins.size() ? begins[next] : problem.layers, stage);
    slowest = std::max(slowest, us);
    meshes[static_cast<size_t>(stage % problem.meshes)] += us;
  }
  return static_cast<double>(problem.microBatches) *
             *std::max_element(meshes.begin(), meshes.end()) +
         static_cast<double>(problem.meshes - 1) * slowest;
}

double leastOf(const TurnCutProblem &problem, std::vector<int32_t> &begins) {
  if (static_cast<int32_t>(begins.size()) == problem.stages)
    return timeOf(problem, begins);
  double least = std::numeric_limits<double>::infinity();
  auto left = problem.stages - static_cast<int32_t>(begins.size());
  for (int32_t next = begins.back() + 1; next <= problem.layers - left; ++next) {
    begins.push_back(next);
    least = std::min(least, leastOf(problem, begins));
    begins.pop_back();
  }
  return least;
}

/// The head is as long as four layers: by its slowest stage every cut is equal, by the sum of turns
/// the mesh with the head gets a short first turn.
TEST(TurnCut, ALongTurnIsMadeUpForByAShortOne) {
  TurnCutProblem problem = problemOf({1, 1, 1, 1, 1, 1, 1, 1, 4}, 4, 2, 8);
  Result<TurnCut> cut = cutTurns(problem);
  ASSERT_TRUE(cut) << cut.status().message();
  // Meshes of 6 each: stages of 3 and 3, and of 2 and 4.
  EXPECT_EQ(cut->begins, (std::vector<int32_t>{0, 3, 5, 8}));
  EXPECT_DOUBLE_EQ(cut->timeUs, 8 * 6 + 4);
}

TEST(TurnCut, IsCloseToTheBestOfAllCuts) {
  std::mt19937 random(1);
  double worst = 1, sum = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<double> layers;
    for (int layer = 0; layer < 12; ++layer)
      layers.push_back(1 + static_cast<double>(random() % 100) / 50);
    layers.back() *= 3;
    int32_t meshes = 2 + static_cast<int32_t>(random() % 2);
    TurnCutProblem problem = problemOf(layers, 2 * meshes, meshes, 8);
    Result<TurnCut> cut = cutTurns(problem);
    ASSERT_TRUE(cut) << cut.status().message();
    EXPECT_DOUBLE_EQ(cut->timeUs, timeOf(problem, cut->begins));
    std::vector<int32_t> begins = {0};
    double ratio = cut->timeUs / leastOf(problem, begins);
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LT(worst, 1.10);
  EXPECT_LT(sum / 60, 1.02);
}

TEST(TurnCut, KeepsToWhatIsAllowed) {
  TurnCutProblem problem = problemOf({1, 1, 1, 1, 1, 1}, 4, 2, 4);
  auto timeUs = problem.timeUs;
  problem.timeUs = [timeUs](int32_t begin, int32_t end, int32_t stage) {
    return stage == 0 && end != 3 ? kForbidden : timeUs(begin, end, stage);
  };
  Result<TurnCut> cut = cutTurns(problem);
  ASSERT_TRUE(cut) << cut.status().message();
  EXPECT_EQ(cut->begins[1], 3);
  problem.timeUs = [](int32_t, int32_t, int32_t) { return kForbidden; };
  EXPECT_EQ(cutTurns(problem).status().message(),
            "turn cut: the layers cannot be cut into 4 stages that are allowed");
}

TEST(TurnCut, RefusesWhatIsNoProblem) {
  TurnCutProblem problem = problemOf({1, 1, 1}, 3, 2, 4);
  EXPECT_EQ(cutTurns(problem).status().message(),
            "turn cut: 3 stages take no equal turns on 2 meshes");
  problem = problemOf({}, 2, 2, 4);
  EXPECT_EQ(cutTurns(problem).status().message(),
            "turn cut: expected at least one layer, one micro-batch and times");
}

} // namespace
} // namespace autopar
