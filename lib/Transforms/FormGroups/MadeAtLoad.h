// SPDX-License-Identifier: Apache-2.0
// What passes before groups are formed know of what lowering computes once.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/AtLoad.h"
#include "autopar/Transforms/MadeOfLess.h"

namespace mlir::autopar {

/// Whether a value is made of parameters and constants before the first step.
inline bool isAtLoad(Value value) {
  if (Operation *op = value.getDefiningOp())
    return isa<ConstantOp>(op) || (isa<ViewOpInterface, CastOp, BroadcastOp, BinaryOp, PadOp>(op) &&
                                   llvm::all_of(op->getOperands(), isAtLoad));
  return isFixedParameter(value);
}

/// Whether such a value is not larger than what it is made of: larger ones (dequantized weights)
/// are made in each step instead (mayRunAtLoad).
inline bool staysFromLoad(Value value) {
  auto isMade = [](Operation *op) { return !isa<ConstantOp>(op); };
  return isAtLoad(value) &&
         tensorBytes(cast<RankedTensorType>(value.getType())) <= bytesOfSources(value, isMade);
}

} // namespace mlir::autopar
