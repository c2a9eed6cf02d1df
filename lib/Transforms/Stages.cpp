// SPDX-License-Identifier: Apache-2.0
// One walk over the block.
#include "autopar/Transforms/Stages.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

Stages::Stages(func::FuncOp function) : function(function) {
  for (BlockArgument argument : function.getArguments())
    stageCount = std::max(stageCount, of(argument) + 1);
  for (Operation &op : function.getBody().front().without_terminator()) {
    int64_t stage = kNone;
    if (auto transfer = dyn_cast<TransferOp>(op))
      stage = transfer.getStage();
    else
      for (Value operand : op.getOperands())
        stage = std::max(stage, of(operand));
    if (stage == kNone)
      continue;
    stages[&op] = stage;
    stageCount = std::max(stageCount, stage + 1);
  }
}

int64_t Stages::of(Value value) const {
  if (Operation *op = value.getDefiningOp())
    return of(op);
  auto stage = function.getArgAttrOfType<IntegerAttr>(cast<BlockArgument>(value).getArgNumber(),
                                                      kStageAttribute);
  return stage ? stage.getInt() : kNone;
}

LogicalResult Stages::verify() const {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<TransferOp>(op))
      continue;
    for (Value operand : op.getOperands())
      if (of(operand) != kNone && of(operand) != of(&op))
        return op.emitOpError() << "reads values of stages " << of(operand) << " and " << of(&op)
                                << "; expected an autopar.transfer between them";
  }
  return success();
}
