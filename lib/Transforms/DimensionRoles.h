// SPDX-License-Identifier: Apache-2.0
// What the dimensions of values count: samples of the batch, positions in a sequence, or something
// of the model's own. Constraints on data and tensor parallelism are said in these words.
#pragma once

#include "autopar/Transforms/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

enum class DimensionRole : uint8_t { Model, Position, Batch };

class DimensionRoles {
public:
  /// Follows the dimensions of the inputs through the operations, by their sharding rules. The
  /// batch is the first dimension of the inputs, positions are the others of integer inputs.
  explicit DimensionRoles(func::FuncOp function);

  /// One per dimension; of a compound one that of its major part.
  ArrayRef<DimensionRole> of(Value value) const;
  /// One per factor of an operation's rule.
  SmallVector<DimensionRole> ofFactors(Operation *op, const ShardingRule &rule) const;

private:
  DenseMap<Value, SmallVector<DimensionRole, 4>> roles; ///< all but those of the model alone
};

} // namespace mlir::autopar
