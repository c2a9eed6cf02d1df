// SPDX-License-Identifier: Apache-2.0
// Reductions, windows, scans and row composites: shapes and sharding rules.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t absent = ShardingRule::absent;

static LogicalResult checkDim(Operation *op, int64_t dim, RankedTensorType type) {
  if (dim < 0 || dim >= type.getRank())
    return op->emitOpError() << "dimension " << dim << " is out of range for " << type;
  return success();
}

static LogicalResult checkDims(Operation *op, ArrayRef<int64_t> dims, RankedTensorType type) {
  for (auto [i, dim] : llvm::enumerate(dims))
    if (failed(checkDim(op, dim, type)))
      return failure();
    else if (i && dims[i - 1] >= dim)
      return op->emitOpError("expects ascending dimensions");
  return success();
}

/// Elementwise except that `dims` have to be whole on every rank.
static ShardingRule wholeAlong(Operation *op, ArrayRef<int64_t> dims) {
  ShardingRule rule = ShardingRule::elementwise(op);
  for (int64_t dim : dims)
    rule.factors[dim].kind = FactorKind::NeedsReplication;
  return rule;
}

//===-- reduce, arg_reduce -------------------------------------------------------------------===//

void ReduceOp::build(OpBuilder &builder, OperationState &state, ReduceKind kind, Value input,
                     ArrayRef<int64_t> dims) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim))
      shape.push_back(type.getDimSize(dim));
  build(builder, state, RankedTensorType::get(shape, type.getElementType()), kind, input, dims);
}

static LogicalResult checkReduced(Operation *op, RankedTensorType input, RankedTensorType result,
                                  ArrayRef<int64_t> dims) {
  if (failed(checkDims(op, dims, input)))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim))
      shape.push_back(input.getDimSize(dim));
  if (result.getShape() != ArrayRef<int64_t>(shape))
    return op->emitOpError() << "expects result shape [" << shape << "], got " << result;
  return success();
}

LogicalResult ReduceOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (input.getElementType() != result.getElementType())
    return emitOpError("expects operand and result of one element type");
  bool logical = getKind() == ReduceKind::And || getKind() == ReduceKind::Or;
  if (logical != input.getElementType().isInteger(1))
    return emitOpError() << stringifyReduceKind(getKind()) << " is not defined on "
                         << input.getElementType();
  return checkReduced(*this, input, result, getDims());
}

/// Kept dimensions pass through in order; `dims` get the given kind.
static ShardingRule reduceRule(Operation *op, ArrayRef<int64_t> dims, FactorKind kind,
                               ReductionKind reduction) {
  ShardingRule rule = ShardingRule::emptyFor(op);
  auto input = cast<RankedTensorType>(op->getOperand(0).getType());
  int64_t result = 0;
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim))
      rule.addFactor({dim}, {result++}, input.getDimSize(dim));
  for (int64_t dim : dims)
    rule.addFactor({dim}, {absent}, input.getDimSize(dim), kind, reduction);
  return rule;
}

ShardingRule ReduceOp::getShardingRule() {
  return reduceRule(*this, getDims(), FactorKind::Reduction, static_cast<ReductionKind>(getKind()));
}

LogicalResult ArgReduceOp::verify() {
  if (getKind() != ReduceKind::Max && getKind() != ReduceKind::Min)
    return emitOpError("expects max or min");
  if (!getType().getElementType().isInteger(64))
    return emitOpError("expects an i64 result");
  return checkReduced(*this, getInput().getType(), getType(), {static_cast<int64_t>(getDim())});
}

ShardingRule ArgReduceOp::getShardingRule() {
  ShardingRule rule =
      reduceRule(*this, {static_cast<int64_t>(getDim())}, FactorKind::NeedsReplication,
                 static_cast<ReductionKind>(getKind()));
  if (!getSelectLast())
    rule.factors.back().behind = BehindEnd::Identity;
  return rule;
}

//===-- windows ------------------------------------------------------------------------------===//

static LogicalResult checkWindow(Operation *op, RankedTensorType input, RankedTensorType result,
                                 ArrayRef<int64_t> window, ArrayRef<int64_t> strides,
                                 ArrayRef<int64_t> padBegin, ArrayRef<int64_t> padEnd,
                                 ArrayRef<int64_t> dilations) {
  for (ArrayRef<int64_t> list : {window, strides, padBegin, padEnd, dilations})
    if (static_cast<int64_t>(list.size()) != input.getRank())
      return op->emitOpError() << "expects " << input.getRank()
                               << " entries per window attribute, got " << list.size();
  if (result.getRank() != input.getRank())
    return op->emitOpError("expects operand and result of one rank");
  for (int64_t i = 0; i < input.getRank(); ++i) {
    if (window[i] < 1 || strides[i] < 1 || dilations[i] < 1 || padBegin[i] < 0 || padEnd[i] < 0)
      return op->emitOpError(
          "expects positive windows, strides and dilations and no negative pads");
    int64_t padded = input.getDimSize(i) + padBegin[i] + padEnd[i];
    int64_t extent = (window[i] - 1) * dilations[i] + 1;
    int64_t expected = padded < extent ? 0 : (padded - extent) / strides[i] + 1;
    if (result.getDimSize(i) != expected)
      return op->emitOpError() << "dimension " << i << " of the result should be " << expected
                               << ", got " << result.getDimSize(i);
  }
  return success();
}

/// Dimensions that the window leaves alone pass through; the others have to be whole.
static ShardingRule windowRule(Operation *op, ArrayRef<int64_t> window, ArrayRef<int64_t> strides,
                               ArrayRef<int64_t> padBegin, ArrayRef<int64_t> padEnd) {
  ShardingRule rule = ShardingRule::emptyFor(op);
  auto input = cast<RankedTensorType>(op->getOperand(0).getType());
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (window[dim] == 1 && strides[dim] == 1 && padBegin[dim] == 0 && padEnd[dim] == 0)
      rule.addFactor({dim}, {dim}, input.getDimSize(dim));
  rule.complete(op);
  return rule;
}

LogicalResult PoolOp::verify() {
  if (getInput().getType().getElementType() != getType().getElementType())
    return emitOpError("expects operand and result of one element type");
  return checkWindow(*this, getInput().getType(), getType(), getWindow(), getStrides(),
                     getPadBegin(), getPadEnd(), getDilations());
}
ShardingRule PoolOp::getShardingRule() {
  ShardingRule rule = windowRule(*this, getWindow(), getStrides(), getPadBegin(), getPadEnd());
  for (auto [dim, stride] : llvm::enumerate(getStrides()))
    if (rule.factors[rule.operands[0][dim].front()].kind == FactorKind::NeedsReplication)
      rule.addWindow(static_cast<int64_t>(dim), stride, /*spread=*/1,
                     getPadEnd()[dim] > 0 ? BehindEnd::Identity : BehindEnd::Anything,
                     static_cast<ReductionKind>(getKind()));
  return rule;
}

LogicalResult ArgPoolOp::verify() {
  if (!getType().getElementType().isInteger(64))
    return emitOpError("expects an i64 result");
  return checkWindow(*this, getInput().getType(), getType(), getWindow(), getStrides(),
                     getPadBegin(), getPadEnd(), getDilations());
}
/// Dimensions in front that the window leaves alone: batch and channels.
static int64_t outerDims(ArgPoolOp op) {
  int64_t dim = 0, rank = op.getInput().getType().getRank();
  while (dim < rank && op.getWindow()[dim] == 1 && op.getStrides()[dim] == 1 &&
         op.getPadBegin()[dim] == 0 && op.getPadEnd()[dim] == 0)
    ++dim;
  return dim;
}
// The dimensions in front may be split, evenly: the result counts positions in the whole input.
ShardingRule ArgPoolOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  for (int64_t dim = 0; dim < outerDims(*this); ++dim) {
    rule.addFactor({dim}, {dim}, getInput().getType().getDimSize(dim));
    rule.factors.back().mayBeUneven = false;
  }
  rule.complete(*this);
  return rule;
}

/// A local position is the number of its plane times the plane's size plus the position in the
/// plane; the planes get their numbers in the whole input. Negative positions mean none.
FailureOr<SmallVector<Value>> ArgPoolOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                   PartitionContext &context) {
  SmallVector<Value> local = context.cloneLocal(*this, builder, localOperands);
  int64_t outer = outerDims(*this);
  auto isSplit = [&](int64_t dim) { return context.shardCount(dim) > 1; };
  if (llvm::none_of(llvm::seq<int64_t>(0, outer), isSplit))
    return local;
  Location loc = getLoc();
  RankedTensorType type = context.localResultType(0);
  auto scalar = [&](int64_t value) -> Value {
    auto scalarType = RankedTensorType::get({}, builder.getI64Type());
    return ConstantOp::create(builder, loc,
                              DenseElementsAttr::get(scalarType, builder.getI64IntegerAttr(value)));
  };
  auto spread = [&](Value value) -> Value {
    return BroadcastOp::create(builder, loc, type, value, ArrayRef<int64_t>{});
  };
  auto binary = [&](BinaryKind kind, Value a, Value b) -> Value {
    return BinaryOp::create(builder, loc, kind, a, b);
  };
  ArrayRef<int64_t> whole = getInput().getType().getShape();
  int64_t step = 1;
  for (int64_t dim = outer; dim < static_cast<int64_t>(whole.size()); ++dim)
    step *= whole[dim];
  Value position = binary(BinaryKind::Modulo, local[0], spread(scalar(step)));
  for (int64_t dim = outer; dim-- > 0;) {
    Value index = IotaOp::create(builder, loc, type, dim);
    if (isSplit(dim)) {
      Value first = binary(BinaryKind::Mul, context.shardIndex(builder, loc, dim),
                           scalar(type.getDimSize(dim)));
      index = binary(BinaryKind::Add, index, spread(first));
    }
    position =
        binary(BinaryKind::Add, position, binary(BinaryKind::Mul, index, spread(scalar(step))));
    step *= whole[dim];
  }
  Value isNone = CompareOp::create(builder, loc, type.clone(builder.getI1Type()),
                                   ComparePredicate::Lt, local[0], spread(scalar(0)));
  return SmallVector<Value>{SelectOp::create(builder, loc, isNone, local[0], position)};
}

//===-- scans and rows -----------------------------------------------------------------------===//

LogicalResult CumulativeOp::verify() {
  if (getKind() == ReduceKind::And || getKind() == ReduceKind::Or)
    return emitOpError("expects sum, prod, max or min");
  return checkDim(*this, getDim(), getType());
}
ShardingRule CumulativeOp::getShardingRule() {
  ShardingRule rule = wholeAlong(*this, {static_cast<int64_t>(getDim())});
  Factor &along = rule.factors[getDim()];
  along.reduction = static_cast<ReductionKind>(getKind());
  along.behind = getReverse() ? BehindEnd::Identity : BehindEnd::Anything;
  return rule;
}

template <typename Op>
static LogicalResult checkSoftmax(Op op) {
  if (!isa<FloatType>(op.getType().getElementType()))
    return op.emitOpError("expects floats, got ") << op.getType();
  return checkDim(op, op.getDim(), op.getType());
}

LogicalResult SoftmaxOp::verify() { return checkSoftmax(*this); }
ShardingRule SoftmaxOp::getShardingRule() {
  ShardingRule rule = wholeAlong(*this, {static_cast<int64_t>(getDim())});
  rule.factors[getDim()].reduction = ReductionKind::Max;
  rule.factors[getDim()].behind = BehindEnd::Identity;
  return rule;
}

LogicalResult SoftmaxGradOp::verify() { return checkSoftmax(*this); }
ShardingRule SoftmaxGradOp::getShardingRule() {
  return wholeAlong(*this, {static_cast<int64_t>(getDim())});
}
double SoftmaxGradOp::getFlops(ArrayRef<RankedTensorType>, ArrayRef<RankedTensorType> results) {
  return 4 * static_cast<double>(results.front().getNumElements());
}

template <typename Op>
static LogicalResult checkNormalize(Op op) {
  if (!isa<FloatType>(op.getType().getElementType()))
    return op.emitOpError("expects floats, got ") << op.getType();
  if (failed(checkDims(op, op.getDims(), op.getType())))
    return failure();
  for (auto [i, dim] : llvm::enumerate(llvm::reverse(op.getDims())))
    if (dim != op.getType().getRank() - 1 - static_cast<int64_t>(i))
      return op.emitOpError("expects trailing dimensions");
  return success();
}

LogicalResult NormalizeOp::verify() { return checkNormalize(*this); }
ShardingRule NormalizeOp::getShardingRule() { return wholeAlong(*this, getDims()); }

LogicalResult NormalizeAgainOp::verify() { return checkNormalize(*this); }
ShardingRule NormalizeAgainOp::getShardingRule() { return wholeAlong(*this, getDims()); }
double NormalizeAgainOp::getFlops(ArrayRef<RankedTensorType>, ArrayRef<RankedTensorType> results) {
  return 6 * static_cast<double>(results.front().getNumElements());
}

LogicalResult NormalizeGradOp::verify() { return checkNormalize(*this); }
ShardingRule NormalizeGradOp::getShardingRule() { return wholeAlong(*this, getDims()); }
double NormalizeGradOp::getFlops(ArrayRef<RankedTensorType>, ArrayRef<RankedTensorType> results) {
  return 12 * static_cast<double>(results.front().getNumElements());
}

LogicalResult TopKOp::verify() {
  RankedTensorType input = getInput().getType(), values = getValues().getType(),
                   indices = getIndices().getType();
  if (failed(checkDim(*this, getDim(), input)))
    return failure();
  SmallVector<int64_t> shape(input.getShape());
  shape[getDim()] = values.getRank() == input.getRank() ? values.getDimSize(getDim()) : -1;
  if (values.getShape() != ArrayRef<int64_t>(shape) ||
      shape[getDim()] > input.getDimSize(getDim()) || indices.getShape() != values.getShape())
    return emitOpError() << "expects values and indices of the input's shape with at most "
                         << input.getDimSize(getDim()) << " along dimension " << getDim();
  if (values.getElementType() != input.getElementType() || !indices.getElementType().isInteger(64))
    return emitOpError("expects values of the input's element type and i64 indices");
  return success();
}
ShardingRule TopKOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  for (int64_t dim = 0; dim < getInput().getType().getRank(); ++dim)
    if (dim != static_cast<int64_t>(getDim()))
      rule.addFactor({dim}, {dim, dim}, getInput().getType().getDimSize(dim));
  rule.addFactor({static_cast<int64_t>(getDim())}, {ShardingRule::absent, ShardingRule::absent},
                 getInput().getType().getDimSize(getDim()), FactorKind::NeedsReplication,
                 getSmallest() ? ReductionKind::Min : ReductionKind::Max);
  rule.factors.back().behind = BehindEnd::Identity;
  rule.complete(*this);
  return rule;
}
