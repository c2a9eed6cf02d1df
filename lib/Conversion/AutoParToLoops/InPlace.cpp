// SPDX-License-Identifier: Apache-2.0
// Which kernels may store a result over an operand.
#include "autopar/Conversion/AutoParToLoops.h"

#include "GroupBody.h"

using namespace mlir;
using namespace mlir::autopar;

bool autopar::mayStoreOver(Operation *groupOrOp, unsigned input, unsigned output) {
  if (groupOrOp->getOperand(input).getType() != groupOrOp->getResult(output).getType() ||
      llvm::count(groupOrOp->getOperands(), groupOrOp->getOperand(input)) != 1)
    return false;
  if (auto kernel = dyn_cast<KernelLoweringOpInterface>(groupOrOp))
    return input == 0 && kernel.changesFirstOperand();
  GroupBody body = GroupBody::of(groupOrOp);
  DenseSet<Value> near; // what reads the operand at its own position only
  near.insert(body.inputs[input]);
  for (Operation *op : body.ops) {
    auto lowering = dyn_cast<ElementLoweringOpInterface>(op);
    if (!lowering || lowering.getRowDomain())
      return false;
    if (llvm::none_of(op->getOperands(), [&](Value value) { return near.contains(value); }))
      continue;
    if (!op->hasTrait<OpTrait::Elementwise>())
      return false;
    near.insert(op->result_begin(), op->result_end());
  }
  return true;
}
