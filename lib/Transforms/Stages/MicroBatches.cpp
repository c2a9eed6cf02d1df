// SPDX-License-Identifier: Apache-2.0
// One walk over the block: the phase of an operation is the latest that its operands ask for.
#include "autopar/Transforms/MicroBatches.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

bool MicroBatches::joins(Operation *op) {
  return isa<AccumulateOp, StackMicroBatchesOp, CarryOp>(op);
}

MicroBatches::MicroBatches(Block &block) {
  auto mark = StringAttr::get(block.getParentOp()->getContext(), everyTime);
  for (Operation &op : block) {
    MicroBatchPhase phase = MicroBatchPhase::Before;
    if (isa<MicroBatchOp, MicroBatchIndexOp, CarriedOp>(op) || joins(&op) ||
        op.getDiscardableAttr(mark))
      phase = MicroBatchPhase::Each;
    if (!phases.empty())
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && phases.contains(producer))
          phase =
              std::max(phase, joins(producer) ? MicroBatchPhase::After : phases.lookup(producer));
    if (auto part = dyn_cast<MicroBatchOp>(op))
      microBatches = cast<RankedTensorType>(part.getInput().getType()).getDimSize(0);
    if (auto stack = dyn_cast<StackMicroBatchesOp>(op))
      microBatches = cast<RankedTensorType>(stack.getType()).getDimSize(0);
    if (phase != MicroBatchPhase::Before)
      phases[&op] = phase;
  }
}
