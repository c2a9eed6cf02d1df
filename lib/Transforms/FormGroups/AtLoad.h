// SPDX-License-Identifier: Apache-2.0
// What passes before lowering know of what lowering computes once, before the first step.
#pragma once

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"

namespace mlir::autopar {

/// Whether a value is made of parameters and constants before the first step.
inline bool isAtLoad(Value value) {
  if (Operation *op = value.getDefiningOp())
    return isa<ConstantOp>(op) || (isa<ViewOpInterface, CastOp, BroadcastOp, BinaryOp, PadOp>(op) &&
                                   llvm::all_of(op->getOperands(), isAtLoad));
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return isParameter(value) && !isOnHost(argument) &&
         !function.getArgAttr(argument.getArgNumber(), "autopar.donated");
}

} // namespace mlir::autopar
