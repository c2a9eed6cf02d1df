// SPDX-License-Identifier: Apache-2.0
// The time axis: verification and sharding rules.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

/// Checks that `all` is `one` with a dimension in front.
static LogicalResult isStackOf(Operation *op, RankedTensorType all, RankedTensorType one) {
  if (all.getRank() == one.getRank() + 1 && all.getElementType() == one.getElementType() &&
      all.getShape().drop_front() == one.getShape())
    return success();
  return op->emitOpError() << "expects " << all << " to be several of " << one;
}

/// All dimensions but the stack's first one pass through.
static ShardingRule stackRule(Operation *op, RankedTensorType one, bool isInput) {
  ShardingRule rule = ShardingRule::emptyFor(op);
  for (int64_t dim = 0; dim < one.getRank(); ++dim)
    rule.addFactor({isInput ? dim + 1 : dim}, {isInput ? dim : dim + 1}, one.getDimSize(dim));
  rule.complete(op);
  return rule;
}

LogicalResult MicroBatchOp::verify() {
  return isStackOf(*this, cast<RankedTensorType>(getInput().getType()),
                   cast<RankedTensorType>(getType()));
}
ShardingRule MicroBatchOp::getShardingRule() {
  return stackRule(*this, cast<RankedTensorType>(getType()), true);
}

ShardingRule MicroBatchIndexOp::getShardingRule() { return ShardingRule::replicated(*this); }

ShardingRule AccumulateOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(*this);
  rule.addUnreducedFactor(static_cast<ReductionKind>(getKind()));
  return rule;
}

LogicalResult StackMicroBatchesOp::verify() {
  return isStackOf(*this, cast<RankedTensorType>(getType()),
                   cast<RankedTensorType>(getInput().getType()));
}
ShardingRule StackMicroBatchesOp::getShardingRule() {
  return stackRule(*this, cast<RankedTensorType>(getInput().getType()), false);
}
