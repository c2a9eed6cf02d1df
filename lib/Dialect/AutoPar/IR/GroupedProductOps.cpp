// SPDX-License-Identifier: Apache-2.0
// Grouped products: shapes, sharding rules, FLOPs. A shard of the groups computes the rows that are
// its own, the others are zero there. In parts such shards stand side by side in the result.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t absent = ShardingRule::absent;
/// The factor of groups, or of parts of them, is the first one of both operations.
static constexpr int64_t groupFactor = 0;

//===-- shapes -------------------------------------------------------------------------------===//

/// `side` is [rows..., extent] where `group` is [rows...]; in parts [parts, rows..., extent].
static LogicalResult verifyRows(Operation *op, StringRef name, RankedTensorType side,
                                RankedTensorType group, bool inParts) {
  if (side.getRank() < 1 + inParts ||
      side.getShape().drop_back().drop_front(inParts) != group.getShape())
    return op->emitOpError() << "expects a group for each row of " << name
                             << (inParts ? " in each part, got " : ", got ") << group << " for "
                             << side;
  return success();
}

/// Parts are of as many of the `groups` each.
static LogicalResult verifyParts(Operation *op, int64_t groups, int64_t parts) {
  if (parts < 1 || groups % parts)
    return op->emitOpError() << "expects parts of as many groups each, got " << parts
                             << " parts of " << groups << " groups";
  return success();
}

static LogicalResult verifyTypes(Operation *op) {
  auto elementOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  Type first = elementOf(op->getOperand(0)), second = elementOf(op->getOperand(1));
  if (first != second || !isa<FloatType>(first) || !isa<FloatType>(elementOf(op->getResult(0))))
    return op->emitOpError() << "expects floats of one type, got " << first << " and " << second
                             << " for a result of " << elementOf(op->getResult(0));
  return success();
}

LogicalResult GroupedDotOp::verify() {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType(), group = getGroup().getType();
  if (failed(verifyTypes(*this)) || failed(verifyRows(*this, "lhs", lhs, group, getInParts())))
    return failure();
  if (rhs.getRank() != 3 || rhs.getDimSize(getDepthDim()) != lhs.getShape().back())
    return emitOpError() << "expects rhs to be a matrix for each group with "
                         << lhs.getShape().back()
                         << (getTransposed() ? " columns, got " : " rows, got ") << rhs;
  if (getInParts() && failed(verifyParts(*this, rhs.getDimSize(0), lhs.getDimSize(0))))
    return failure();
  SmallVector<int64_t> shape(lhs.getShape().drop_back());
  shape.push_back(rhs.getDimSize(getColumnDim()));
  if (getType().getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "expects result shape [" << shape << "], got " << getType();
  return success();
}

LogicalResult GroupedDotRhsGradOp::verify() {
  RankedTensorType lhs = getLhs().getType(), gradient = getGradient().getType(),
                   group = getGroup().getType();
  if (failed(verifyTypes(*this)) || failed(verifyRows(*this, "lhs", lhs, group, getInParts())) ||
      failed(verifyRows(*this, "gradient", gradient, group, getInParts())))
    return failure();
  if (getInParts() && lhs.getDimSize(0) != gradient.getDimSize(0))
    return emitOpError() << "expects as many parts of lhs as of gradient, got " << lhs << " and "
                         << gradient;
  if (getType().getRank() != 3 || getType().getDimSize(1) != lhs.getShape().back() ||
      getType().getDimSize(2) != gradient.getShape().back())
    return emitOpError() << "expects a result [groups, " << lhs.getShape().back() << ", "
                         << gradient.getShape().back() << "], got " << getType();
  return getInParts() ? verifyParts(*this, getType().getDimSize(0), lhs.getDimSize(0)) : success();
}

//===-- sharding -----------------------------------------------------------------------------===//

/// What is split of the groups: they, or in parts these.
ShardingRule GroupedDotOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType();
  int64_t last = lhs.getRank() - 1, first = getInParts(), groups = rhs.getDimSize(0);
  if (first) {
    int64_t parts = lhs.getDimSize(0);
    rule.addFactor({0, 0, absent}, {0}, parts);
    rule.addFactor({absent, 0, absent}, {absent}, groups / parts, FactorKind::NeedsReplication);
  } else {
    rule.addFactor({absent, 0, absent}, {absent}, groups, FactorKind::Reduction);
  }
  rule.factors[groupFactor].mayBeUneven = false;
  for (int64_t dim = first; dim < last; ++dim)
    rule.addFactor({dim, absent, dim - first}, {dim}, lhs.getDimSize(dim));
  rule.addFactor({absent, getColumnDim(), absent}, {last}, rhs.getDimSize(getColumnDim()));
  rule.addFactor({last, getDepthDim(), absent}, {absent}, lhs.getDimSize(last),
                 FactorKind::Reduction);
  return rule;
}

ShardingRule GroupedDotRhsGradOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType lhs = getLhs().getType();
  int64_t last = lhs.getRank() - 1, first = getInParts(), groups = getType().getDimSize(0);
  if (first) {
    int64_t parts = lhs.getDimSize(0);
    rule.addFactor({0, 0, absent}, {0}, parts);
    rule.addFactor({absent, absent, absent}, {0}, groups / parts, FactorKind::NeedsReplication);
  } else {
    rule.addFactor({absent, absent, absent}, {0}, groups);
  }
  rule.factors[groupFactor].mayBeUneven = false;
  rule.addFactor({last, absent, absent}, {1}, getType().getDimSize(1));
  rule.addFactor({absent, last, absent}, {2}, getType().getDimSize(2));
  for (int64_t dim = first; dim < last; ++dim)
    rule.addFactor({dim, dim, dim - first}, {absent}, lhs.getDimSize(dim), FactorKind::Reduction);
  return rule;
}

/// Groups by their numbers on this rank, which has `local` of them: those of others are none.
static Value ownGroups(OpBuilder &builder, Location loc, Value group, int64_t local,
                       Value shardIndex) {
  auto type = cast<RankedTensorType>(group.getType()).clone(builder.getI64Type());
  if (group.getType() != type)
    group = CastOp::create(builder, loc, type, group);
  Value first =
      BinaryOp::create(builder, loc, BinaryKind::Mul, shardIndex, i64Scalar(builder, loc, local));
  first = BroadcastOp::create(builder, loc, type, first, ArrayRef<int64_t>{});
  return BinaryOp::create(builder, loc, BinaryKind::Sub, group, first);
}

/// `groups`: all that there are, and those of this rank.
template <typename Op>
static SmallVector<Value> partitionGroups(Op op, int64_t groups, int64_t local, OpBuilder &builder,
                                          ValueRange localOperands, PartitionContext &context) {
  if (context.shardCount(groupFactor) == 1)
    return context.cloneLocal(op, builder, localOperands);
  SmallVector<Value> operands(localOperands);
  operands[2] = ownGroups(builder, op.getLoc(), operands[2], local,
                          context.shardIndex(builder, op.getLoc(), groupFactor));
  SmallVector<Value> results = context.cloneLocal(op, builder, operands);
  results[0].getDefiningOp<Op>().setAmong(op.getAmong().value_or(groups));
  return results;
}

FailureOr<SmallVector<Value>> GroupedDotOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                      PartitionContext &context) {
  int64_t local = cast<RankedTensorType>(localOperands[1].getType()).getDimSize(0);
  return partitionGroups(*this, getRhs().getType().getDimSize(0), local, builder, localOperands,
                         context);
}

FailureOr<SmallVector<Value>> GroupedDotRhsGradOp::partition(OpBuilder &builder,
                                                             ValueRange localOperands,
                                                             PartitionContext &context) {
  return partitionGroups(*this, getType().getDimSize(0), context.localResultType(0).getDimSize(0),
                         builder, localOperands, context);
}

//===-- cost ---------------------------------------------------------------------------------===//

/// As many rows are of one group as of any other, so of `groups` among `all` their share; in parts
/// each has that of its groups.
static double rowProducts(RankedTensorType lhs, int64_t columns, int64_t groups, int64_t all,
                          bool inParts) {
  double parts = inParts ? static_cast<double>(lhs.getDimSize(0)) : 1;
  double share = all > 0 ? static_cast<double>(groups) / static_cast<double>(all) / parts : 1;
  return 2.0 * static_cast<double>(lhs.getNumElements()) * static_cast<double>(columns) * share;
}

double GroupedDotOp::getFlops(ArrayRef<RankedTensorType> operands,
                              ArrayRef<RankedTensorType> results) {
  return rowProducts(operands[0], results[0].getShape().back(), operands[1].getDimSize(0),
                     getAmong().value_or(getRhs().getType().getDimSize(0)), getInParts());
}

double GroupedDotRhsGradOp::getFlops(ArrayRef<RankedTensorType> operands,
                                     ArrayRef<RankedTensorType> results) {
  return rowProducts(operands[0], operands[1].getShape().back(), results[0].getDimSize(0),
                     getAmong().value_or(getType().getDimSize(0)), getInParts());
}

/// Of the matrices (operand 1) no more are read than there are rows.
static int64_t touchedByRows(unsigned index, ArrayRef<RankedTensorType> operands, int64_t rows) {
  int64_t bytes = tensorBytes(operands[index]), groups = operands[1].getDimSize(0);
  return index != 1 || groups == 0 ? bytes : bytes / groups * std::min(groups, rows);
}

int64_t GroupedDotOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                      ArrayRef<RankedTensorType>) {
  return touchedByRows(index, operands, operands[2].getNumElements());
}

int64_t GroupedDotRhsGradOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                             ArrayRef<RankedTensorType>) {
  return tensorBytes(operands[index]);
}

//===-- tiles --------------------------------------------------------------------------------===//

/// What kernels read 16 bytes at a time.
static LogicalResult verifyTiledOperand(Operation *op, RankedTensorType type) {
  Type element = type.getElementType();
  if (type.getRank() < 1 || (!element.isF16() && !element.isBF16()) ||
      type.getShape().back() % 8 != 0)
    return op->emitOpError() << "expects rows of a multiple of 8 elements of f16 or bf16, got "
                             << type;
  return success();
}

/// `order` has the rows of whole tiles.
static LogicalResult verifyTiles(Operation *op, RankedTensorType order, int64_t tiles) {
  int64_t rows = GroupedDotTilesOp::tileRows;
  if (order.getRank() != 1 || order.getDimSize(0) % rows != 0 ||
      (tiles >= 0 && order.getDimSize(0) != tiles * rows))
    return op->emitOpError() << "expects " << rows
                             << " numbers of rows in order for each tile, got " << order;
  return success();
}

LogicalResult GroupedDotTilesOp::verify() {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType(),
                   group = getTileGroup().getType();
  if (failed(verifyTypes(*this)) || failed(verifyTiledOperand(*this, lhs)) ||
      failed(verifyTiledOperand(*this, rhs)))
    return failure();
  int64_t depth = getTransposed() ? 2 : 1;
  if (rhs.getRank() != 3 || rhs.getDimSize(depth) != lhs.getShape().back())
    return emitOpError() << "expects rhs to be a matrix for each group, got " << rhs << " for "
                         << lhs;
  if (group.getRank() != 1)
    return emitOpError() << "expects a group for each tile, got " << group;
  SmallVector<int64_t> shape(lhs.getShape());
  shape.back() = rhs.getDimSize(3 - depth);
  if (getType().getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "expects result shape [" << shape << "], got " << getType();
  if (shape.back() % 8 != 0)
    return emitOpError() << "expects a result in rows of a multiple of 8 elements, got "
                         << getType();
  return verifyTiles(*this, getOrder().getType(), group.getDimSize(0));
}

LogicalResult GroupedDotRhsGradTilesOp::verify() {
  RankedTensorType lhs = getLhs().getType(), gradient = getGradient().getType(),
                   first = getFirstTile().getType();
  if (failed(verifyTypes(*this)) || failed(verifyTiledOperand(*this, lhs)) ||
      failed(verifyTiledOperand(*this, gradient)))
    return failure();
  if (gradient.getShape().drop_back() != lhs.getShape().drop_back())
    return emitOpError() << "expects as many rows in lhs and gradient, got " << lhs << " and "
                         << gradient;
  SmallVector<int64_t> shape{getType().getDimSize(0), lhs.getShape().back(),
                             gradient.getShape().back()};
  if (getType().getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "expects result shape [" << shape << "], got " << getType();
  if (first.getRank() != 1 || first.getDimSize(0) != shape.front() + 1)
    return emitOpError() << "expects the first tile of each group and the end, got " << first;
  return verifyTiles(*this, getOrder().getType(), -1);
}

/// The last tile of each group is half empty, on average.
static double tileProducts(RankedTensorType lhs, int64_t columns, int64_t groups, int64_t all) {
  int64_t depth = lhs.getShape().back(), rows = depth > 0 ? lhs.getNumElements() / depth : 0;
  double empty = static_cast<double>(std::min(rows, groups) * GroupedDotTilesOp::tileRows) / 2;
  return rowProducts(lhs, columns, groups, all, /*inParts=*/false) +
         2.0 * empty * static_cast<double>(depth) * static_cast<double>(columns);
}

double GroupedDotTilesOp::getFlops(ArrayRef<RankedTensorType> operands,
                                   ArrayRef<RankedTensorType> results) {
  int64_t groups = operands[1].getDimSize(0);
  return tileProducts(operands[0], results[0].getShape().back(), groups,
                      getAmong().value_or(groups));
}

int64_t GroupedDotTilesOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                           ArrayRef<RankedTensorType>) {
  return touchedByRows(index, operands, llvm::product_of(operands[0].getShape().drop_back()));
}

int64_t GroupedDotRhsGradTilesOp::getTouchedBytes(unsigned index,
                                                  ArrayRef<RankedTensorType> operands,
                                                  ArrayRef<RankedTensorType>) {
  return tensorBytes(operands[index]);
}

double GroupedDotRhsGradTilesOp::getFlops(ArrayRef<RankedTensorType> operands,
                                          ArrayRef<RankedTensorType> results) {
  int64_t groups = results[0].getDimSize(0);
  return tileProducts(operands[0], results[0].getShape().back(), groups,
                      getAmong().value_or(groups));
}
