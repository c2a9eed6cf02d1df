// SPDX-License-Identifier: Apache-2.0
// Folding keeps what it promises: legal choices, a true bound, hardly any loss, and a thousand
// layers for little more than ten.
#include "autopar/Planner/FoldBlocks.h"

#include <ctime>

#include <gtest/gtest.h>

#include "LayerChain.h"

namespace autopar {
namespace {

using testing::layerChain;
using testing::LayerChainShape;

const SearchEngine &own() { return **findSearchEngine("own"); }

/// Processor time, so that a busy machine does not fail the test.
double seconds(const CostGraph &graph, Solution &solution) {
  std::clock_t start = std::clock();
  Result<Solution> found = own().search(graph, {});
  EXPECT_TRUE(found.isOk()) << found.status().message();
  if (found)
    solution = *found;
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

TEST(FoldBlocks, FoldsTheEqualCopiesOnly) {
  CostGraph graph = layerChain({.layers = 12});
  SearchOptions options;
  BlockFolder folder(graph, own(), options);
  std::optional<FoldedGraph> folded = folder.fold(graph.memoryLimitBytes);
  ASSERT_TRUE(folded);
  const FoldedGraph &small = *folded;
  ASSERT_EQ(small.blocks.size(), 1u);
  // The first layer is joined to the embedding and the last to the head: they differ.
  EXPECT_EQ(small.blocks[0].copies.size(), 10u);
  EXPECT_TRUE(small.graph.verify().isOk()) << small.graph.verify().message();
  Result<Solution> found = own().search(small.graph, {});
  ASSERT_TRUE(found.isOk());
  Evaluation folds = evaluate(small.graph, found->choice);
  Evaluation whole = evaluate(graph, small.expand(found->choice));
  EXPECT_TRUE(whole.legal) << whole.whyNot;
  EXPECT_NEAR(folds.timeUs, whole.timeUs, 1e-6 * whole.timeUs);
  EXPECT_EQ(folds.peakBytes, whole.peakBytes);
  EXPECT_LE(folder.lowerBoundUs(), whole.timeUs);
}

TEST(FoldBlocks, FoldsUnderOneLimitAsIfUnderNoOtherBefore) {
  CostGraph graph = layerChain({.layers = 12, .memoryShare = 0.5});
  SearchOptions options;
  BlockFolder fresh(graph, own(), options), used(graph, own(), options);
  ASSERT_TRUE(used.fold(0));
  std::optional<FoldedGraph> once = fresh.fold(graph.memoryLimitBytes),
                             again = used.fold(graph.memoryLimitBytes);
  ASSERT_TRUE(once && again);
  ASSERT_EQ(once->graph.nodes.size(), again->graph.nodes.size());
  EXPECT_GT(again->blocks[0].options.size(), 1u);
  Result<Solution> first = own().search(once->graph, {}), second = own().search(again->graph, {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(once->expand(first->choice), again->expand(second->choice));
}

TEST(FoldBlocks, LosesLittleAgainstTheWholeSearch) {
  for (double limit : {0.0, 0.8, 0.5}) {
    CostGraph graph = layerChain({.layers = 12, .memoryShare = limit});
    SearchOptions whole;
    whole.foldBlocks = false;
    Result<Solution> full = own().search(graph, whole);
    SearchOptions options;
    BlockFolder folder(graph, own(), options);
    std::optional<FoldedGraph> folded = folder.fold(graph.memoryLimitBytes);
    ASSERT_TRUE(full.isOk() && folded);
    Result<Solution> found = own().search(folded->graph, {});
    ASSERT_TRUE(found.isOk()) << found.status().message();
    EXPECT_LE(folder.lowerBoundUs(), full->timeUs * (1 + 1e-9));
    EXPECT_LE(found->timeUs, full->timeUs * 1.05) << "limit " << limit;
    if (limit > 0) {
      EXPECT_LE(found->peakBytes, graph.memoryLimitBytes);
    }
  }
}

TEST(FoldBlocks, AConstraintUnfoldsOneCopy) {
  CostGraph graph = layerChain({.layers = 12});
  graph.nodes[5 * testing::kLayerNodes + 1].strategies[0].timeUs = kForbidden;
  SearchOptions options;
  std::optional<FoldedGraph> folded =
      BlockFolder(graph, own(), options).fold(graph.memoryLimitBytes);
  ASSERT_TRUE(folded);
  EXPECT_EQ(folded->blocks[0].copies.size(), 9u);
  Result<Solution> found = own().search(folded->graph, {});
  ASSERT_TRUE(found.isOk());
  std::vector<int32_t> choice = folded->expand(found->choice);
  EXPECT_TRUE(evaluate(graph, choice).legal);
}

TEST(FoldBlocks, NothingToFold) {
  CostGraph graph = layerChain({.layers = 3});
  SearchOptions options;
  EXPECT_FALSE(BlockFolder(graph, own(), options).fold(graph.memoryLimitBytes));
}

TEST(FoldBlocks, ABoundThatIsOfNoUseIsNotLookedFor) {
  CostGraph graph = layerChain({.layers = 1400});
  SearchOptions options;
  Result<Solution> bounded = own().search(graph, options);
  options.bounds = false;
  Result<Solution> found = own().search(graph, options);
  ASSERT_TRUE(bounded && found);
  EXPECT_GT(bounded->lowerBoundUs, 0);
  EXPECT_EQ(found->choice, bounded->choice);
}

TEST(FoldBlocks, AThousandLayersCostLittleMoreThanTen) {
  Solution ten, thousand;
  LayerChainShape shape{.layers = 10, .strategies = 40, .memoryShare = 0.7};
  double few = seconds(layerChain(shape), ten);
  shape.layers = 1000;
  double many = seconds(layerChain(shape), thousand);
  EXPECT_LT(many, 5 * few + 3);
  EXPECT_GT(thousand.timeUs, 50 * ten.timeUs);
  EXPECT_GT(thousand.lowerBoundUs, 0);
}

} // namespace
} // namespace autopar
