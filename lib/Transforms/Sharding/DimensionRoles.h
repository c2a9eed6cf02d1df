// SPDX-License-Identifier: Apache-2.0
// What the dimensions of values count: samples of the batch, positions in a sequence, experts, or
// something else of the model's own. Constraints on data, expert and tensor parallelism are said in
// these words.
#pragma once

#include "autopar/Transforms/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {

enum class DimensionRole : uint8_t {
  Model,
  Expert, ///< networks side by side, with parameters of their own, each for some of the tokens
  Position,
  Batch
};

/// Whether an operation of this rule contracts a factor of two operands.
bool isProduct(const ShardingRule &rule);

class DimensionRoles {
public:
  /// Follows the dimensions of the inputs through the operations, by their sharding rules. The
  /// batch is the first dimension of the inputs, positions are the others of integer inputs.
  /// Experts are what a product with a parameter keeps apart in both operands and the result (the
  /// form of GShard, Lepikhin et al. 2020); what it reads has them back to where it was made.
  explicit DimensionRoles(func::FuncOp function);

  /// One per dimension; of a compound one that of its major part.
  ArrayRef<DimensionRole> of(Value value) const;
  /// Whether a dimension counts samples, or positions of them.
  bool hasSamples(Value value) const;
  /// One per factor of an operation's rule.
  SmallVector<DimensionRole> ofFactors(Operation *op, const ShardingRule &rule) const;

private:
  bool isOfArguments(Value value) const;
  void readInputs(func::FuncOp function);
  void findExperts(func::FuncOp function);
  /// Of all operands of an operation that have a factor.
  void markExpertsOf(Operation &op, const ShardingRule &rule, int64_t factor);
  void markExperts(Value value, unsigned dim);
  bool markRepeated(Value value, unsigned dim);

  llvm::SetVector<Operation *> madeOfArguments;
  DenseMap<Value, SmallVector<DimensionRole, 4>> roles; ///< all but those of the model alone
};

} // namespace mlir::autopar
