// SPDX-License-Identifier: Apache-2.0
// Weights that the step makes of much fewer bytes (quantized ones): a kernel that reads them makes
// them in passing.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/Sharding.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {

/// Whether `made` bytes are so much more than the `bytes` of what they are made of that this is
/// read instead: 8 bits with a scale per block are, beside 16.
inline bool isMuchLess(int64_t bytes, int64_t made) { return 8 * bytes <= 5 * made; }

/// What one element at a time makes of others, wherever these lie.
inline bool isMadeByElement(Operation *op) {
  auto lowering = dyn_cast_or_null<ElementLoweringOpInterface>(op);
  return lowering && op->getNumResults() == 1 && !lowering.getRowDomain();
}

/// Bytes of what a value is made of by operations of which `isMade` is true, repeated numbers left
/// out.
inline int64_t bytesOfSources(Value value, llvm::function_ref<bool(Operation *)> isMade) {
  llvm::SetVector<Value> values;
  values.insert(value);
  int64_t bytes = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (op && isMade(op))
      values.insert(op->operand_begin(), op->operand_end());
    else if (!op || !isSplat(op))
      bytes += tensorBytes(cast<RankedTensorType>(values[i].getType()));
  }
  return bytes;
}

/// Whether the kernel that makes `weights` reads much less than it writes, and one reads them.
inline bool isMadeOfLess(Value weights) {
  return weights.hasOneUse() && isMadeByElement(weights.getDefiningOp()) &&
         isMuchLess(bytesOfSources(weights, isMadeByElement),
                    tensorBytes(cast<RankedTensorType>(weights.getType())));
}

} // namespace mlir::autopar
