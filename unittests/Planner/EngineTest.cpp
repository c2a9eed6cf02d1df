// SPDX-License-Identifier: Apache-2.0
// Every engine against brute force on random small graphs with memory limits.
#include "autopar/Planner/SearchEngine.h"

#include <gtest/gtest.h>

#include "RandomGraphs.h"

namespace autopar {
namespace {

using testing::cheapestByTrying;
using testing::randomGraph;
using testing::RandomGraphShape;

class EngineTest : public ::testing::TestWithParam<std::string> {
protected:
  const SearchEngine &engine() {
    Result<const SearchEngine *> found = findSearchEngine(GetParam());
    EXPECT_TRUE(found.isOk());
    return **found;
  }

  /// How many of the graphs it solved to the optimum and how many feasible ones it missed.
  struct Score {
    int feasible = 0, optimal = 0, missed = 0;
  };

  Score run(const RandomGraphShape &shape, uint64_t firstSeed, int graphs) {
    Score score;
    for (int i = 0; i < graphs; ++i) {
      CostGraph graph = randomGraph(shape, firstSeed + static_cast<uint64_t>(i));
      std::optional<double> best = cheapestByTrying(graph);
      SearchOptions options;
      options.workUnits = 2;
      Result<Solution> found = engine().search(graph, options);
      score.feasible += best.has_value();
      if (!found) {
        EXPECT_EQ(found.status().code(), StatusCode::BadInput);
        score.missed += best.has_value();
        continue;
      }
      EXPECT_TRUE(best.has_value());
      const Solution &solution = *found;
      Evaluation evaluation = evaluate(graph, solution.choice);
      EXPECT_TRUE(evaluation.legal && evaluation.fits) << "seed " << firstSeed + i;
      EXPECT_DOUBLE_EQ(evaluation.timeUs, solution.timeUs);
      EXPECT_EQ(evaluation.peakBytes, solution.peakBytes);
      EXPECT_LE(solution.lowerBoundUs, *best + 1e-6) << "seed " << firstSeed + i;
      if (solution.stoppedBy == StopReason::Optimal) {
        EXPECT_NEAR(solution.timeUs, *best, 1e-6) << "seed " << firstSeed + i;
      }
      score.optimal += solution.timeUs <= *best + 1e-6;
    }
    return score;
  }
};

TEST_P(EngineTest, WithoutMemory) {
  RandomGraphShape shape;
  shape.memory = false;
  Score score = run(shape, 1, 300);
  EXPECT_EQ(score.missed, 0);
  EXPECT_GE(score.optimal, score.feasible * 98 / 100);
}

TEST_P(EngineTest, WithMemory) {
  Score score = run({}, 1000, 300);
  EXPECT_GT(score.feasible, 100);
  EXPECT_LE(score.missed, 2);
  EXPECT_GE(score.optimal, score.feasible * 95 / 100);
}

TEST_P(EngineTest, DenseWithMemory) {
  RandomGraphShape shape;
  shape.nodes = 6;
  shape.edges = 20;
  shape.forbiddenShare = 0.02;
  shape.followers = false;
  Score score = run(shape, 5000, 150);
  EXPECT_LE(score.missed, 2);
  EXPECT_GE(score.optimal, score.feasible * 95 / 100);
}

TEST_P(EngineTest, ObeysWhatIsForbidden) {
  for (uint64_t seed = 1; seed < 40; ++seed) {
    CostGraph graph = randomGraph({}, seed);
    graph.memoryLimitBytes = 0;
    for (Strategy &other : std::span(graph.nodes[0].strategies).subspan(1))
      other.timeUs = kForbidden;
    graph.nodes[1].strategies[0].timeUs = kForbidden;
    std::optional<double> best = cheapestByTrying(graph);
    Result<Solution> found = engine().search(graph, {});
    ASSERT_EQ(found.isOk(), best.has_value()) << seed;
    if (found) {
      EXPECT_EQ(found->choice[0], 0);
      EXPECT_NE(found->choice[1], 0);
    }
  }
}

TEST_P(EngineTest, SameAnswerOnAnyNumberOfThreads) {
  RandomGraphShape shape;
  shape.nodes = 150;
  shape.edges = 300;
  shape.mostStrategies = 6;
  shape.forbiddenShare = 0;
  shape.followers = false;
  CostGraph graph = randomGraph(shape, 7);
  SearchOptions options;
  options.workUnits = 30;
  Result<Solution> one = engine().search(graph, options);
  options.threads = 4;
  Result<Solution> four = engine().search(graph, options);
  ASSERT_EQ(one.isOk(), four.isOk());
  if (one) {
    EXPECT_EQ(one->choice, four->choice);
  }
}

TEST_P(EngineTest, NamesTheLeastMemory) {
  CostGraph graph;
  graph.addNode({"x", {{1, 100, 0}, {2, 80, 0}}, {{0, 1}}});
  graph.memoryLimitBytes = 50;
  Result<Solution> found = engine().search(graph, {});
  ASSERT_FALSE(found.isOk());
  EXPECT_EQ(found.status().code(), StatusCode::BadInput);
  EXPECT_NE(found.status().message().find("80"), std::string::npos) << found.status().message();
}

/// Copies that a rule forbids to leave out would need less: what is named keeps the rules all the
/// same.
TEST_P(EngineTest, NamesTheLeastMemoryOfLegalChoices) {
  CostGraph graph;
  int32_t copyIsRead = graph.addMatrix({0, 0, kForbidden, 0}),
          change = graph.addMatrix({0, 3, 3, 0}), before = -1;
  for (int64_t i = 0; i < 40; ++i) {
    int32_t copy = graph.addNode({"copy", {{1, 100, 0}, {0, 0, 0}}, {{i, i + 3}}}),
            user = graph.addNode({"user", {{1, 10, 0}, {9, 105, 0}}, {{i, i + 3}}});
    graph.addEdge(copy, user, copyIsRead);
    if (before >= 0)
      graph.addEdge(before, user, change);
    before = user;
  }
  graph.memoryLimitBytes = 200;
  Result<Solution> found = engine().search(graph, {});
  ASSERT_FALSE(found.isOk());
  EXPECT_NE(found.status().message().find(
                "no choice that fits into 200 bytes was found; the least found is"),
            std::string::npos)
      << found.status().message();
}

TEST_P(EngineTest, EmptyGraph) {
  Result<Solution> found = engine().search({}, {});
  ASSERT_TRUE(found.isOk());
  EXPECT_TRUE(found->choice.empty());
  EXPECT_EQ(found->stoppedBy, StopReason::Optimal);
}

INSTANTIATE_TEST_SUITE_P(All, EngineTest, ::testing::ValuesIn(searchEngineNames()),
                         [](const auto &info) { return info.param; });

TEST_P(EngineTest, AStartIsNeverMadeWorse) {
  RandomGraphShape shape;
  shape.memory = false;
  shape.nodes = 80;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CostGraph graph = randomGraph(shape, seed);
    SearchOptions much, little;
    much.workUnits = 200;
    Result<Solution> good = engine().search(graph, much);
    ASSERT_TRUE(good.isOk());
    little.workUnits = 1;
    little.start = good->choice;
    Result<Solution> again = engine().search(graph, little);
    ASSERT_TRUE(again.isOk());
    EXPECT_LE(again->timeUs, good->timeUs * (1 + 1e-9)) << "seed " << seed;
  }
}

TEST(SearchEngineRegistry, UnknownNameListsTheKnownOnes) {
  Result<const SearchEngine *> found = findSearchEngine("magic");
  ASSERT_FALSE(found.isOk());
  EXPECT_NE(found.status().message().find("own"), std::string::npos);
}

} // namespace
} // namespace autopar
