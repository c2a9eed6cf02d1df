// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/KernelBytes.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Transforms/InPlace.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;

static SmallVector<RankedTensorType> typesOf(ValueRange values) {
  return llvm::map_to_vector(values, [](Value value) { return tensorTypeOf(value); });
}

/// What the operations of a group read of a value, at the most all of it each.
static int64_t touchedInside(Value value) {
  int64_t bytes = 0;
  for (OpOperand &use : value.getUses()) {
    Operation *op = use.getOwner();
    bool isLookedThrough = isa<ViewOpInterface>(op);
    bytes += isLookedThrough ? touchedInside(op->getResult(0))
                             : touchedBytes(op, use.getOperandNumber(), typesOf(op->getOperands()),
                                            typesOf(op->getResults()));
  }
  return bytes;
}

int64_t mlir::autopar::touchedBytes(Operation *groupOrOp, unsigned index,
                                    ArrayRef<RankedTensorType> operands,
                                    ArrayRef<RankedTensorType> results) {
  if (auto group = dyn_cast<GroupOp>(groupOrOp))
    return std::min(tensorBytes(operands[index]),
                    touchedInside(group.getBody().getArgument(index)));
  auto cost = dyn_cast<CostOpInterface>(groupOrOp);
  return cost ? cost.getTouchedBytes(index, operands, results) : tensorBytes(operands[index]);
}

int64_t mlir::autopar::kernelBytes(Operation *groupOrOp, ArrayRef<RankedTensorType> operands,
                                   ArrayRef<RankedTensorType> results, bool inPlace) {
  int64_t bytes = 0;
  for (unsigned index = 0; index < operands.size(); ++index)
    bytes += touchedBytes(groupOrOp, index, operands, results);
  if (!changesFirstOperand(groupOrOp)) {
    for (RankedTensorType type : results)
      bytes += tensorBytes(type);
    return bytes;
  }
  // Written is what is changed or, behind a copy, all.
  int64_t changed = touchedBytes(groupOrOp, 0, operands, results);
  return bytes + (inPlace ? changed : 2 * tensorBytes(operands[0]) - changed);
}

int64_t mlir::autopar::kernelBytes(Operation *groupOrOp) {
  return kernelBytes(groupOrOp, typesOf(groupOrOp->getOperands()), typesOf(groupOrOp->getResults()),
                     changesInPlace(groupOrOp));
}

bool mlir::autopar::changesInPlace(Operation *groupOrOp) {
  auto isKept = [](Value value) {
    Operation *op = value.getDefiningOp();
    return op->hasTrait<OpTrait::ConstantLike>() && !isSplat(op);
  };
  return changesFirstOperand(groupOrOp) && operandToReplace(groupOrOp, 0, isKept) == 0;
}
