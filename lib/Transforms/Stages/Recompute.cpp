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

StringRef mlir::autopar::whyNotRecomputed(Operation *op) {
  if (isa<TransferOp>(op))
    return "another stage sends it";
  if (MicroBatches::joins(op))
    return "it is made of all micro-batches";
  if (op->hasTrait<OpTrait::ConstantLike>())
    return "it is a constant";
  if (!isMemoryEffectFree(op) || op->getNumResults() == 0 ||
      isa<CarriedOp, MicroBatchOp, MicroBatchIndexOp, FenceOp>(op))
    return "it computes nothing";
  return "";
}

bool mlir::autopar::isComputedAgain(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto names = function ? function->getAttrOfType<ArrayAttr>(kRecomputeAttribute) : ArrayAttr();
  return names && llvm::any_of(names, [&](Attribute name) {
           auto text = dyn_cast<StringAttr>(name);
           return text && text.getValue() == getOpId(op) && !text.getValue().empty();
         });
}
