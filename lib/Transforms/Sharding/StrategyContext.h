// SPDX-License-Identifier: Apache-2.0
// An operation under a strategy, as it rewrites itself to the shapes of one shard. Whoever splits
// (the ranks of a mesh, time) says how a shard knows its number.
#pragma once

#include "autopar/Transforms/Sharding.h"

namespace mlir::autopar {

class StrategyContext : public PartitionContext {
public:
  StrategyContext(Operation *op, const ShardingRule &rule, const FactorAxes &axes,
                  const MeshAxes &mesh)
      : axes(axes), mesh(mesh), op(op), rule(rule) {}

  /// The operation on local operands: by its own rewrite, or cloned where it has none. What it is
  /// made of gets its id. Failure where its own rewrite fails; nothing is reported.
  FailureOr<SmallVector<Value>> rewrite(OpBuilder &builder, ValueRange localOperands);

  int64_t shardCount(int64_t factor) const override { return mesh.shards(axes[factor]); }
  RankedTensorType localResultType(unsigned index) const override;
  SmallVector<Value> cloneLocal(Operation *original, OpBuilder &builder,
                                ValueRange localOperands) override;

protected:
  const FactorAxes &axes;
  const MeshAxes &mesh;

private:
  Operation *op;
  const ShardingRule &rule;
};

} // namespace mlir::autopar
