// SPDX-License-Identifier: Apache-2.0
// Layers of a chain of equal blocks, each of three operations that write different amounts.
#include "autopar/Transforms/RecomputeProblem.h"

#include <gtest/gtest.h>

using namespace mlir::autopar;
using ::autopar::RecomputeOp;
using ::autopar::RecomputeProblem;

namespace {

/// Operation i writes value i, which the next one reads, and the backward pass, from its end.
RecomputeProblem chainOf(size_t copies, const std::vector<int64_t> &bytes) {
  RecomputeProblem problem;
  auto count = static_cast<int32_t>(copies * bytes.size());
  for (int32_t i = 0; i < count; ++i) {
    RecomputeOp op;
    op.id = "op" + std::to_string(i);
    op.timeUs = 1;
    if (i > 0)
      op.reads = {i - 1};
    op.writes = {i};
    op.mayRecompute = true;
    problem.ops.push_back(op);
    problem.values.push_back({bytes[i % bytes.size()]});
  }
  for (int32_t i = count - 1; i >= 0; --i) {
    RecomputeOp op;
    op.id = "back" + std::to_string(i);
    op.reads = {i};
    op.isBackward = true;
    problem.ops.push_back(op);
  }
  return problem;
}

using Layers = std::vector<std::vector<int32_t>>;

TEST(LayersOf, HandOnTheLast) {
  EXPECT_EQ(layersOf(chainOf(3, {50, 40, 10})), (Layers{{0, 1}, {3, 4}, {6, 7, 8}}));
}

TEST(LayersOf, AreCutWhereTheLeastIsHandedOn) {
  // The first block's first two operations and the last one's last are layers of their own.
  EXPECT_EQ(layersOf(chainOf(3, {50, 10, 40})), (Layers{{0}, {2, 3}, {5, 6}, {8}}));
}

TEST(LayersOf, CountAllThatAnOperationWrites) {
  // It hands on little, but it is kept whole.
  RecomputeProblem problem = chainOf(3, {50, 10, 40});
  for (int32_t i = 1; i < 9; i += 3) {
    problem.ops[i].writes.push_back(static_cast<int32_t>(problem.values.size()));
    problem.values.push_back({100});
  }
  EXPECT_EQ(layersOf(problem), (Layers{{0, 1}, {3, 4}, {6, 7, 8}}));
}

} // namespace
