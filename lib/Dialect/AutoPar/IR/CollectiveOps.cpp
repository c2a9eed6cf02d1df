// SPDX-License-Identifier: Apache-2.0
// Resharding and collectives: verification, and what collectives say about themselves.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

LogicalResult ReshardOp::verify() {
  for (ShardingAttr sharding : {getFrom(), getTo()})
    if (static_cast<int64_t>(sharding.getDims().size()) != getType().getRank())
      return emitOpError() << "sharding of " << sharding.getDims().size() << " dimensions on "
                           << getType();
  return success();
}

ShardingRule HoldOp::getShardingRule() {
  ShardingRule rule = ShardingRule::elementwise(*this);
  if (getUnreduced())
    rule.addUnreducedFactor();
  return rule;
}
FailureOr<SmallVector<Value>> HoldOp::partition(OpBuilder &, ValueRange localOperands,
                                                PartitionContext &) {
  return SmallVector<Value>(localOperands);
}

/// Checks that operand and result differ at most in `dims`.
static LogicalResult sameOutside(Operation *op, RankedTensorType input, RankedTensorType result,
                                 ArrayRef<int64_t> dims) {
  if (input.getElementType() != result.getElementType() || input.getRank() != result.getRank())
    return op->emitOpError() << "expects one rank and element type, got " << input << " and "
                             << result;
  for (int64_t dim : dims)
    if (dim < 0 || dim >= input.getRank())
      return op->emitOpError() << "dimension " << dim << " is out of range for " << input;
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim) && input.getDimSize(dim) != result.getDimSize(dim))
      return op->emitOpError() << "dimension " << dim << " must not change";
  return success();
}

LogicalResult AllGatherOp::verify() {
  return sameOutside(*this, cast<RankedTensorType>(getInput().getType()),
                     cast<RankedTensorType>(getType()), {static_cast<int64_t>(getDim())});
}
LogicalResult ReduceScatterOp::verify() {
  return sameOutside(*this, cast<RankedTensorType>(getInput().getType()),
                     cast<RankedTensorType>(getType()), {static_cast<int64_t>(getDim())});
}
LogicalResult AllToAllOp::verify() {
  return sameOutside(*this, cast<RankedTensorType>(getInput().getType()),
                     cast<RankedTensorType>(getType()),
                     {static_cast<int64_t>(getSplitDim()), static_cast<int64_t>(getConcatDim())});
}

/// Whether every number below `count` stands in the list once.
static bool isPermutation(ArrayRef<int64_t> numbers, int64_t count) {
  SmallVector<int64_t> sorted(numbers);
  llvm::sort(sorted);
  return llvm::equal(sorted, llvm::seq(count));
}
static int64_t positionsAlong(Operation *op, FlatSymbolRefAttr symbol, ArrayAttr axes) {
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, symbol);
  return mesh ? mesh.axesSize(axes) : 0; // who lowers it tells that there is none
}

LogicalResult PermuteOp::verify() {
  int64_t positions = positionsAlong(*this, getMeshAttr(), getAxes());
  if (positions > 0 && !isPermutation(getSources(), positions))
    return emitOpError() << "expects each of the " << positions << " positions along " << getAxes()
                         << " to be the source of one, got [" << getSources() << "]";
  return success();
}
LogicalResult ShardIndexOp::verify() {
  int64_t positions = positionsAlong(*this, getMeshAttr(), getAxes());
  if (positions > 0 && getNumbers() && static_cast<int64_t>(getNumbers()->size()) != positions)
    return emitOpError() << "expects a number for each of the " << positions << " positions along "
                         << getAxes() << ", got [" << *getNumbers() << "]";
  return success();
}

//===-- the collective interface --------------------------------------------------------------===//

CollectiveKind AllReduceOp::getCollectiveKind() { return CollectiveKind::AllReduce; }
std::optional<ReductionKind> AllReduceOp::getReduction() {
  return static_cast<ReductionKind>(getKind());
}

CollectiveKind AllGatherOp::getCollectiveKind() { return CollectiveKind::AllGather; }
std::optional<int64_t> AllGatherOp::getJoinedDimension() { return getDim(); }

CollectiveKind ReduceScatterOp::getCollectiveKind() { return CollectiveKind::ReduceScatter; }
std::optional<ReductionKind> ReduceScatterOp::getReduction() {
  return static_cast<ReductionKind>(getKind());
}
std::optional<int64_t> ReduceScatterOp::getSplitDimension() { return getDim(); }

CollectiveKind AllToAllOp::getCollectiveKind() { return CollectiveKind::AllToAll; }
std::optional<int64_t> AllToAllOp::getSplitDimension() { return getSplitDim(); }
std::optional<int64_t> AllToAllOp::getJoinedDimension() { return getConcatDim(); }

CollectiveKind PermuteOp::getCollectiveKind() { return CollectiveKind::Permute; }
