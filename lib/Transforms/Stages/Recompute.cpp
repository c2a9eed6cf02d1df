// SPDX-License-Identifier: Apache-2.0
#include "Recompute.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Views.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::isLookedThrough(Operation *op) {
  return isa<MicroBatchOp>(op) || (isView(op) && op->getNumOperands() == 1);
}

bool mlir::autopar::mayRecompute(Operation *op) {
  return isMemoryEffectFree(op) && op->getNumResults() > 0 &&
         !op->hasTrait<OpTrait::ConstantLike>() && !MicroBatches::joins(op) &&
         !isa<TransferOp, CarriedOp, MicroBatchOp, MicroBatchIndexOp, FenceOp>(op);
}

bool mlir::autopar::isComputedAgain(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto names = function ? function->getAttrOfType<ArrayAttr>(kRecomputeAttribute) : ArrayAttr();
  return names && llvm::any_of(names, [&](Attribute name) {
           auto text = dyn_cast<StringAttr>(name);
           return text && text.getValue() == getOpId(op) && !text.getValue().empty();
         });
}
