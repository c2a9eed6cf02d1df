// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "OpsOfStages.h"

#include "StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::isDonated(func::FuncOp function, BlockArgument argument) {
  return function.getArgAttr(argument.getArgNumber(), "autopar.donated") != nullptr;
}

IntegerAttr mlir::autopar::pinnedStage(func::FuncOp function, BlockArgument argument) {
  return function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kStageAttribute);
}

OpsOfStages::OpsOfStages(func::FuncOp function) : function(function) {
  Block &block = function.getBody().front();
  StagePhases phases(block);
  bool isBehindForward = false;
  for (Operation &op : block.without_terminator()) {
    if (llvm::all_of(op.getOperands(), [&](Value operand) { return isOnNone(operand); })) {
      free.insert(&op);
      continue;
    }
    isBehindForward = isBehindForward || phases.isBackward(&op);
    if (isBehindForward)
      later.push_back(&op);
    else if (llvm::all_of(op.getOperands(), [&](Value operand) { return isOfParameters(operand); }))
      ofParameters.insert(&op);
    else
      forward.push_back(&op);
  }
}

bool OpsOfStages::isOnNone(Value value) const {
  if (Operation *op = value.getDefiningOp())
    return free.contains(op);
  auto argument = cast<BlockArgument>(value);
  return !isParameter(argument) && !isDonated(function, argument) &&
         !pinnedStage(function, argument);
}

/// A parameter, or made of parameters and constants alone.
bool OpsOfStages::isOfParameters(Value value) const {
  if (Operation *op = value.getDefiningOp())
    return op->getNumOperands() == 0 || ofParameters.contains(op);
  return !isOnNone(value);
}
