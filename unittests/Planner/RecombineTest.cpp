// SPDX-License-Identifier: Apache-2.0
// What is combined of two choices is never worse than either.
#include "Recombine.h"

#include <random>

#include <gtest/gtest.h>

#include "MemoryPrices.h"
#include "RandomGraphs.h"
#include "Reduction.h"

namespace autopar::planner {
namespace {

TEST(Recombine, IsNeverWorseThanEither) {
  int better = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    testing::RandomGraphShape shape;
    shape.nodes = 60;
    shape.edges = 70;
    shape.followers = false;
    CostGraph graph = testing::randomGraph(shape, seed);
    Result<Reduction> reduction = Reduction::of(graph);
    if (!reduction || reduction->problem().nodes.size() < 4)
      continue;
    const ReducedProblem &problem = reduction->problem();
    std::mt19937_64 random(seed);
    auto draw = [&] {
      std::vector<int32_t> choice;
      for (const ReducedNode &node : problem.nodes)
        choice.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(node.size())));
      return choice;
    };
    std::vector<int32_t> base = draw(), other = base, fresh = draw();
    for (size_t i = 0; i < other.size(); i += 1 + random() % 4)
      other[i] = fresh[i];
    Standing mixed = standingOf(problem, recombine(problem, base, other));
    Standing first = standingOf(problem, base), second = standingOf(problem, other);
    ASSERT_FALSE(first < mixed) << "seed " << seed;
    ASSERT_FALSE(second < mixed) << "seed " << seed;
    better += mixed < first && mixed < second;
  }
  EXPECT_GT(better, 50);
}

} // namespace
} // namespace autopar::planner
