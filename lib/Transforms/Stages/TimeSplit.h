// SPDX-License-Identifier: Apache-2.0
// Which values and operations of a function are split over time, and how: the batch dimension of
// the inputs is, and operations follow by their sharding rules.
#pragma once

#include "autopar/Transforms/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {

/// The dimension of a value that is split over time; nothing for a whole value.
using SplitDim = std::optional<int64_t>;

SplitDim splitOf(const TensorSharding &sharding);

class TimeSplit {
public:
  TimeSplit(func::FuncOp function, int64_t count);

  /// Fails, with an error, where micro-batches would change what the function computes.
  LogicalResult decide();

  int64_t count() const { return mesh.sizes[0]; }
  /// Time, as an axis.
  const MeshAxes &axis() const { return mesh; }
  ArrayRef<BlockArgument> inputs() const { return splitInputs.getArrayRef(); }
  bool isInput(BlockArgument argument) const { return splitInputs.contains(argument); }
  /// How an operation is split; null for one that works on whole values.
  const FactorAxes *strategyOf(Operation *op) const;
  /// The dimension in which only micro-batches have a value.
  SplitDim dimOf(Value value) const;
  /// How many whole operands a strategy takes parts of; nothing where it does not fit what is split
  /// already, or the extent is uneven.
  std::optional<unsigned> slicesNeeded(Operation *op, const ShardingRule &rule,
                                       const FactorAxes &axes) const;

private:
  LogicalResult findInputs();
  FailureOr<bool> decideAll();
  FailureOr<bool> decide(Operation *op);
  const FactorAxes *cheapest(Operation *op, const ShardingRule &rule,
                             ArrayRef<FactorAxes> strategies) const;
  LogicalResult makeGlobal(Value value, Operation *user);

  func::FuncOp function;
  MeshAxes mesh;
  llvm::SetVector<BlockArgument> splitInputs;
  llvm::SetVector<Operation *> globals; ///< computed on the whole batch, before micro-batches
  DenseMap<Operation *, FactorAxes> strategies; ///< of operations that are split
  DenseMap<Value, int64_t> split;
  DenseSet<Value> late; ///< known after the last micro-batch only
};

} // namespace mlir::autopar
