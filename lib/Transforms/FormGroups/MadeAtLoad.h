// SPDX-License-Identifier: Apache-2.0
// What passes before groups are formed know of what lowering computes once.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/AtLoad.h"

namespace mlir::autopar {

/// Whether a value is made of parameters and constants before the first step.
inline bool isAtLoad(Value value) {
  if (Operation *op = value.getDefiningOp())
    return isa<ConstantOp>(op) || (isa<ViewOpInterface, CastOp, BroadcastOp, BinaryOp, PadOp>(op) &&
                                   llvm::all_of(op->getOperands(), isAtLoad));
  return isFixedParameter(value);
}

} // namespace mlir::autopar
