// SPDX-License-Identifier: Apache-2.0
// Constants, positions and random numbers: how each rank makes its own part.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

/// Every result dimension may be made on its own.
static ShardingRule freeRule(Operation *op) { return ShardingRule::elementwise(op); }

/// This rank's first position along `dim`: its shard index times the local extent.
static Value shardOffset(OpBuilder &builder, Location loc, PartitionContext &context, int64_t dim,
                         int64_t extent) {
  Value size =
      ConstantOp::create(builder, loc,
                         DenseElementsAttr::get(RankedTensorType::get({}, builder.getI64Type()),
                                                builder.getI64IntegerAttr(extent)));
  return BinaryOp::create(builder, loc, BinaryKind::Mul, context.shardIndex(builder, loc, dim),
                          size);
}

static bool isSharded(PartitionContext &context, int64_t rank) {
  return llvm::any_of(llvm::seq<int64_t>(0, rank),
                      [&](int64_t dim) { return context.shardCount(dim) > 1; });
}

//===-- constant -----------------------------------------------------------------------------===//

void ConstantOp::build(OpBuilder &builder, OperationState &state, ElementsAttr value) {
  build(builder, state, value.getType(), value);
}

LogicalResult ConstantOp::verify() {
  if (getValue().getType() != getType())
    return emitOpError() << "value of type " << getValue().getType() << " for a result of "
                         << getType();
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }
ShardingRule ConstantOp::getShardingRule() { return freeRule(*this); }

FailureOr<SmallVector<Value>> ConstantOp::partition(OpBuilder &builder, ValueRange,
                                                    PartitionContext &context) {
  RankedTensorType local = context.localResultType(0);
  if (local == getType())
    return SmallVector<Value>{ConstantOp::create(builder, getLoc(), getValue())};
  if (auto dense = dyn_cast<DenseElementsAttr>(getValue()); dense && dense.isSplat())
    return SmallVector<Value>{ConstantOp::create(builder, getLoc(), dense.resizeSplat(local))};
  Value whole = ConstantOp::create(builder, getLoc(), getValue());
  SmallVector<Value> starts;
  for (int64_t dim = 0; dim < local.getRank(); ++dim)
    starts.push_back(shardOffset(builder, getLoc(), context, dim, local.getDimSize(dim)));
  return SmallVector<Value>{DynamicSliceOp::create(builder, getLoc(), local, whole, starts)};
}

//===-- iota ---------------------------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getDim()) >= getType().getRank())
    return emitOpError() << "dimension " << getDim() << " is out of range for " << getType();
  if (getType().getElementType().isInteger(1))
    return emitOpError("is not defined on i1");
  return success();
}
ShardingRule IotaOp::getShardingRule() { return freeRule(*this); }

/// Along a split dimension a line of positions, repeated along the others: what adds the offset is
/// no larger than the line.
FailureOr<SmallVector<Value>> IotaOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                PartitionContext &context) {
  int64_t dim = getDim();
  if (context.shardCount(dim) == 1)
    return context.cloneLocal(*this, builder, localOperands);
  RankedTensorType type = context.localResultType(0);
  Type element = type.getElementType();
  auto lineType = RankedTensorType::get({type.getDimSize(dim)}, element);
  Value offset = shardOffset(builder, getLoc(), context, dim, type.getDimSize(dim));
  offset = builder.createOrFold<CastOp>(getLoc(), RankedTensorType::get({}, element), offset);
  offset = BroadcastOp::create(builder, getLoc(), lineType, offset, ArrayRef<int64_t>{});
  Value line = IotaOp::create(builder, getLoc(), lineType, 0);
  line = BinaryOp::create(builder, getLoc(), BinaryKind::Add, line, offset);
  if (type.getRank() > 1)
    line = BroadcastOp::create(builder, getLoc(), type, line, ArrayRef<int64_t>{dim});
  return SmallVector<Value>{line};
}

//===-- random -------------------------------------------------------------------------------===//

LogicalResult RandomOp::verify() {
  if (static_cast<int64_t>(getGlobalShape().size()) != getType().getRank())
    return emitOpError("expects a global shape of the result's rank");
  if (!getOffsets().empty() && static_cast<int64_t>(getOffsets().size()) != getType().getRank())
    return emitOpError("expects no offsets or one per dimension");
  bool bits = getKind() == RandomKind::Bits;
  if (bits != isa<IntegerType>(getType().getElementType()))
    return emitOpError() << stringifyRandomKind(getKind()) << " does not fit " << getType();
  return success();
}
ShardingRule RandomOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  SmallVector<int64_t> none(getNumOperands(), ShardingRule::absent);
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    rule.addFactor(none, {dim}, getType().getDimSize(dim));
  return rule;
}

FailureOr<SmallVector<Value>> RandomOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                  PartitionContext &context) {
  RankedTensorType type = context.localResultType(0);
  if (!isSharded(context, type.getRank()))
    return context.cloneLocal(*this, builder, localOperands);
  SmallVector<Value> offsets;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    offsets.push_back(shardOffset(builder, getLoc(), context, dim, type.getDimSize(dim)));
    if (!localOperands.empty())
      offsets.back() = BinaryOp::create(builder, getLoc(), offsets.back().getType(),
                                        BinaryKind::Add, offsets.back(), localOperands[dim]);
  }
  return SmallVector<Value>{RandomOp::create(builder, getLoc(), type, getKindAttr(), offsets,
                                             getSeedAttr(), getStreamAttr(), getGlobalShapeAttr())};
}
