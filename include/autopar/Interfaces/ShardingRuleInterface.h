// SPDX-License-Identifier: Apache-2.0
// C++ side of the sharding rule interface: what an operation may ask while it is being partitioned.
#pragma once

#include "autopar/Interfaces/ShardingRule.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::autopar {

/// The partitioner's answers to an operation that rewrites itself to local shapes.
class PartitionContext {
public:
  virtual ~PartitionContext() = default;

  /// Number of shards of a factor under the operation's strategy.
  virtual int64_t shardCount(int64_t factor) const = 0;
  /// This rank's position among the shards of a factor: a tensor<i64> scalar; a constant zero where
  /// the factor is not sharded.
  virtual Value shardIndex(OpBuilder &builder, Location loc, int64_t factor) = 0;
  /// The local type of result `index`.
  virtual RankedTensorType localResultType(unsigned index) const = 0;
  /// The operation cloned with local result types.
  virtual SmallVector<Value> cloneLocal(Operation *op, OpBuilder &builder,
                                        ValueRange localOperands) = 0;
};

} // namespace mlir::autopar

#include "autopar/Interfaces/ShardingRuleInterface.h.inc"
