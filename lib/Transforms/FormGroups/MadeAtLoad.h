// SPDX-License-Identifier: Apache-2.0
// What passes before groups are formed know of what lowering computes once.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/AtLoad.h"

#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {

/// Whether a value is made of parameters and constants before the first step.
inline bool isAtLoad(Value value) {
  if (Operation *op = value.getDefiningOp())
    return isa<ConstantOp>(op) || (isa<ViewOpInterface, CastOp, BroadcastOp, BinaryOp, PadOp>(op) &&
                                   llvm::all_of(op->getOperands(), isAtLoad));
  return isFixedParameter(value);
}

/// Whether such a value is not larger than the parameters that it is made of: larger ones
/// (dequantized weights) are made in each step instead (mayRunAtLoad).
inline bool staysFromLoad(Value value) {
  if (!isAtLoad(value))
    return false;
  auto bytesOf = [](Value v) { return tensorBytes(cast<RankedTensorType>(v.getType())); };
  llvm::SetVector<Value> values;
  values.insert(value);
  int64_t bytes = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (op && !isa<ConstantOp>(op))
      values.insert(op->operand_begin(), op->operand_end());
    else
      bytes += bytesOf(values[i]);
  }
  return bytesOf(value) <= bytes;
}

} // namespace mlir::autopar
