// SPDX-License-Identifier: Apache-2.0
// See the header. Where the vocabulary is split, ranks exchange maxima and sums between the loss
// and its gradient, which are then kernels of their own; what picks the label's column of the
// logits is as large as they are and was handed from one to the other through memory.
#include "RepeatInUsers.h"

#include "CheapArithmetic.h"
#include "FusionClusters.h"

#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/Sharding.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

/// By what a result is larger than all that it is made of.
static constexpr int64_t kLarger = 8;
/// Operations of one result that is computed again.
static constexpr int kMostOps = 16;

static bool isRepeated(Operation *op) { return op && (isFluid(op) || isCheapArithmetic(op)); }

/// Whether the values that `value` is made of by at most `ops` operations have `bytes`, which are
/// taken off.
static bool isMadeOf(Value value, int &ops, int64_t &bytes) {
  Operation *op = value.getDefiningOp();
  if (ops == 0 || !isRepeated(op))
    return (bytes -= tensorBytes(tensorTypeOf(value))) >= 0;
  --ops;
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isMadeOf(operand, ops, bytes); });
}

/// A copy of what `value` is made of, down to those values.
static Value copyOf(Value value, int &ops, OpBuilder &builder) {
  Operation *op = value.getDefiningOp();
  if (!isRepeated(op) || ops == 0)
    return value;
  --ops;
  IRMapping operands;
  for (Value operand : op->getOperands())
    operands.map(operand, copyOf(operand, ops, builder));
  Operation *copy = builder.clone(*op, operands);
  copy->removeAttr("autopar.id"); // which the original keeps
  return copy->getResult(0);
}

bool mlir::autopar::isCheaperInUsers(Operation *op) {
  if (!isCheapArithmetic(op))
    return false;
  int ops = kMostOps;
  Value result = op->getResult(0);
  int64_t bytes = tensorBytes(tensorTypeOf(result)) / kLarger;
  return isMadeOf(result, ops, bytes);
}

void mlir::autopar::repeatInUsers(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block.without_terminator()))) {
    if (op.getNumResults() != 1 || op.hasOneUse() || !isCheaperInUsers(&op))
      continue;
    Value result = op.getResult(0);
    if (!llvm::all_of(op.getUsers(), [&](Operation *user) { return readsOnce(user, result); }))
      continue;
    llvm::SetVector<Operation *> users(op.user_begin(), op.user_end());
    for (Operation *user : users) {
      if (result.hasOneUse())
        break;
      OpBuilder builder(user);
      int ops = kMostOps;
      user->replaceUsesOfWith(result, copyOf(result, ops, builder));
    }
  }
}
