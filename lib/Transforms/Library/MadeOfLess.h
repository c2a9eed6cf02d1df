// SPDX-License-Identifier: Apache-2.0
// Weights that the step makes of much fewer bytes (quantized ones): a kernel that reads them makes
// them in passing.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/LoweringInterface.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {

/// How many times as large made weights are at least as what they are made of.
constexpr int64_t kMadeGrowth = 2;

/// What one element at a time makes of others, wherever these lie.
inline bool isMadeByElement(Operation *op) {
  auto lowering = dyn_cast_or_null<ElementLoweringOpInterface>(op);
  return lowering && op->getNumResults() == 1 && !lowering.getRowDomain();
}

/// Whether the kernel that makes `weights` reads much less than it writes, and one reads them.
inline bool isMadeOfLess(Value weights) {
  if (!weights.hasOneUse() || !isMadeByElement(weights.getDefiningOp()))
    return false;
  auto bytesOf = [](Value value) { return tensorBytes(cast<RankedTensorType>(value.getType())); };
  llvm::SetVector<Value> values;
  values.insert(weights);
  int64_t bytes = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (isMadeByElement(op))
      values.insert(op->operand_begin(), op->operand_end());
    else if (!isa_and_nonnull<ConstantOp>(op))
      bytes += bytesOf(values[i]);
  }
  return bytes * kMadeGrowth <= bytesOf(weights);
}

} // namespace mlir::autopar
