// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/InPlace.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::changesFirstOperand(Operation *groupOrOp) {
  auto kernel = dyn_cast<KernelLoweringOpInterface>(groupOrOp);
  return kernel && kernel.changesFirstOperand();
}

using NearValues = llvm::SmallDenseSet<Value, 64>;

/// Whether an operation reads what is `near`, values at the positions of an operand, at its own
/// position only; its results are near then.
static bool staysNear(Operation *op, NearValues &near) {
  auto lowering = dyn_cast<ElementLoweringOpInterface>(op);
  if (!lowering || lowering.getRowDomain())
    return false;
  if (llvm::none_of(op->getOperands(), [&](Value value) { return near.contains(value); }))
    return true;
  near.insert_range(op->getResults());
  return op->hasTrait<OpTrait::Elementwise>();
}

bool mlir::autopar::mayStoreOver(Operation *groupOrOp, unsigned input, unsigned output) {
  Value operand = groupOrOp->getOperand(input);
  if (operand.getType() != groupOrOp->getResult(output).getType() ||
      llvm::count(groupOrOp->getOperands(), operand) != 1)
    return false;
  if (isa<KernelLoweringOpInterface>(groupOrOp))
    return input == 0 && changesFirstOperand(groupOrOp);
  auto group = dyn_cast<GroupOp>(groupOrOp);
  NearValues near;
  near.insert(group ? Value(group.getBody().getArgument(input)) : operand);
  if (!group)
    return staysNear(groupOrOp, near);
  return llvm::all_of(group.getBody().front().without_terminator(),
                      [&](Operation &op) { return staysNear(&op, near); });
}

/// Whether every reader of a value, through views too, comes before `op` or is it.
static bool isLastReader(Operation *op, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    bool isEarly = user == op || user->isBeforeInBlock(op);
    return isEarly && (!isa<ViewOpInterface>(user) || isLastReader(op, user->getResult(0)));
  });
}

/// The value whose bytes a view, or a micro-batch of a whole, reads.
static Value viewed(Value value) {
  while (isa_and_nonnull<ViewOpInterface, MicroBatchOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Whether a step goes on with other results of the kernel before it is known that it counts, or
/// when it is only evaluated: the next value waits beside the old one then.
static bool runsUncommitted(Operation *groupOrOp, unsigned result) {
  auto function = dyn_cast<func::FuncOp>(groupOrOp->getParentOp());
  if (!function || groupOrOp->getNumResults() == 1)
    return false;
  bool isRead = llvm::any_of(groupOrOp->getResults(), [&](OpResult other) {
    return other.getResultNumber() != result && llvm::any_of(other.getUsers(), [](Operation *user) {
             return !isa<func::ReturnOp>(user);
           });
  });
  return isRead && llvm::any_of(llvm::seq<unsigned>(0, function.getNumResults()), [&](unsigned i) {
           return function.getResultAttr(i, "autopar.guard") ||
                  function.getResultAttr(i, kEvaluatedAttribute);
         });
}

int64_t mlir::autopar::operandToReplace(Operation *groupOrOp, unsigned result,
                                        function_ref<bool(Value)> isKept) {
  for (OpOperand &use : groupOrOp->getResult(result).getUses()) {
    if (!isa<func::ReturnOp>(use.getOwner()) || runsUncommitted(groupOrOp, result))
      continue;
    for (OpOperand &operand : groupOrOp->getOpOperands())
      if (isDonorOf(operand.get(), use.getOperandNumber()) &&
          isLastReader(groupOrOp, operand.get()) &&
          mayStoreOver(groupOrOp, operand.getOperandNumber(), result))
        return operand.getOperandNumber();
  }
  // Of other values it pays where the kernel would copy what it leaves as it is.
  if (!changesFirstOperand(groupOrOp) || !mayStoreOver(groupOrOp, 0, result))
    return -1;
  Value changed = viewed(groupOrOp->getOperand(0));
  bool isConsumed = changed.getDefiningOp() && isLastReader(groupOrOp, changed) && !isKept(changed);
  return isConsumed ? 0 : -1;
}

/// Whether only kernels read a value, through views too, and all of them before `op`.
static bool isReadBefore(Operation *op, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<ViewOpInterface>(user))
      return isReadBefore(op, user->getResult(0));
    return isa<GroupOp>(user) && user->isBeforeInBlock(op);
  });
}

BlockArgument mlir::autopar::placeOfNextValue(Operation *groupOrOp, unsigned result,
                                              ArrayRef<BlockArgument> donors) {
  Value value = groupOrOp->getResult(result);
  BlockArgument place;
  for (OpOperand &use : value.getUses())
    if (isa<func::ReturnOp>(use.getOwner())) {
      if (place) // the next value of two
        return {};
      place = donors[use.getOperandNumber()];
    }
  return place && place.getType() == value.getType() && isReadBefore(groupOrOp, place) &&
                 !runsUncommitted(groupOrOp, result)
             ? place
             : BlockArgument();
}
