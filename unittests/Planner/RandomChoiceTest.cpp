// SPDX-License-Identifier: Apache-2.0
// Drawn choices: always legal, of all kinds, and refused by name where there is none.
#include "autopar/Planner/RandomChoice.h"

#include "RandomGraphs.h"

#include <gtest/gtest.h>
#include <set>

namespace autopar {
namespace {

/// `joint` goes with equal strategies of the two nodes before it alone.
CostGraph joined() {
  CostGraph graph;
  std::vector<Strategy> strategies(3);
  for (const char *id : {"left", "between", "right", "joint"})
    graph.addNode({id, strategies, {}});
  std::vector<double> same(9, kForbidden);
  same[0] = same[4] = same[8] = 0;
  int32_t matrix = graph.addMatrix(same);
  graph.addEdge(0, 3, matrix);
  graph.addEdge(3, 2, matrix); // in either direction
  return graph;
}

TEST(RandomChoice, DrawsAgainWhereNothingGoesWithTheChoicesSoFar) {
  CostGraph graph = joined();
  std::set<std::vector<int32_t>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Result<std::vector<int32_t>> choice = drawChoice(graph, seed);
    ASSERT_TRUE(choice) << choice.status().message();
    EXPECT_EQ(evaluate(graph, *choice).whyNot, "");
    seen.insert(*choice);
  }
  EXPECT_EQ(seen.size(), 9u);
}

TEST(RandomChoice, IsTheSameForASeed) {
  EXPECT_EQ(*drawChoice(joined(), 7), *drawChoice(joined(), 7));
}

TEST(RandomChoice, IsLegalOnGraphsWithManyForbiddenPairs) {
  testing::RandomGraphShape shape;
  shape.nodes = 12;
  shape.edges = 16;
  shape.forbiddenShare = 0.3;
  int drawn = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CostGraph graph = testing::randomGraph(shape, seed);
    if (Result<std::vector<int32_t>> choice = drawChoice(graph, seed)) {
      Evaluation evaluation = evaluate(graph, *choice);
      EXPECT_TRUE(evaluation.legal) << evaluation.whyNot;
      ++drawn;
    }
  }
  EXPECT_GT(drawn, 0);
}

TEST(RandomChoice, NamesTheNodeAndTheSeed) {
  CostGraph graph = joined();
  graph.matrices[0].assign(9, kForbidden);
  EXPECT_EQ(drawChoice(graph, 5).status().message(),
            "a random plan of seed 5: node 'joint' has no strategy that goes with those of the "
            "nodes before it; expected another seed or fewer demands");
  graph = joined();
  for (Strategy &strategy : graph.nodes[1].strategies)
    strategy.timeUs = kForbidden;
  EXPECT_NE(drawChoice(graph, 5).status().message().find("'between'"), std::string::npos);
}

} // namespace
} // namespace autopar
