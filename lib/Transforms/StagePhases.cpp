// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/MicroBatches.h"

using namespace mlir;
using namespace mlir::autopar;

void mlir::autopar::addDependences(Operation *wanted, DenseSet<Operation *> &found,
                                   function_ref<bool(Operation *)> isIncluded) {
  SmallVector<Operation *> worklist{wanted};
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (!op || !isIncluded(op) || !found.insert(op).second)
      continue;
    for (Value operand : op->getOperands())
      worklist.push_back(operand.getDefiningOp());
  }
}

StagePhases::StagePhases(Block &block) {
  // Constants are shared by both passes, whoever they are named after. What is behind a fence is
  // computed again for the backward pass.
  for (Operation &op : block.without_terminator())
    if (op.getNumOperands() > 0 && (isa<FenceOp>(op) || getOpId(&op).contains("/vjp") ||
                                    llvm::any_of(op.getOperands(), [&](Value operand) {
                                      return backward.contains(operand.getDefiningOp());
                                    })))
      backward.insert(&op);
  // What is sent once, behind all micro-batches (a summand of the gradients' norm), waits for
  // everything anyway: nobody waits for its part in a micro-batch.
  for (auto transfer : block.getOps<TransferOp>())
    addDependences(transfer.getInput().getDefiningOp(), sent,
                   [](Operation *op) { return !isa<TransferOp>(op) && !MicroBatches::joins(op); });
}

::autopar::StagePhase StagePhases::of(Operation *op) const {
  using ::autopar::StagePhase;
  if (!isBackward(op))
    return StagePhase::Forward;
  // The gradient of the stage's input is what is sent; nobody waits for the rest.
  return sent.contains(op) ? StagePhase::Backward : StagePhase::Weight;
}

::autopar::Result<::autopar::Schedule> mlir::autopar::scheduleOf(func::FuncOp function) {
  Block &block = function.getBody().front();
  auto name = function->getAttrOfType<StringAttr>(kScheduleAttribute);
  auto meshes = function->getAttrOfType<IntegerAttr>(kStageMeshesAttribute);
  return ::autopar::makeSchedule(name ? name.getValue() : "1f1b", Stages(function).count(),
                                 meshes ? meshes.getInt() : 1, MicroBatches(block).count(),
                                 StagePhases(block).trains());
}
