// SPDX-License-Identifier: Apache-2.0
// Following a dimension upwards, operation by operation.
#include "DimensionSplitter.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The dimension of the reshape's input that is dimension `dim` of its result, unchanged.
std::optional<int64_t> sourceDim(ReshapeOp op, int64_t dim) {
  ArrayRef<int64_t> in = op.getInput().getType().getShape(), out = op.getType().getShape();
  int64_t before = llvm::product_of(out.take_front(dim)), seen = 1;
  for (auto [i, extent] : llvm::enumerate(in)) {
    if (seen == before && extent == out[dim])
      return i;
    seen *= extent;
  }
  return std::nullopt;
}

/// The operand dimension that a broadcast puts at `dim`; nothing where it repeats.
std::optional<int64_t> sourceDim(BroadcastOp op, int64_t dim) {
  for (auto [i, to] : llvm::enumerate(op.getDims()))
    if (to == dim && op.getInput().getType().getDimSize(i) != 1)
      return i;
  return std::nullopt;
}

/// Where a result dimension of a product comes from: operand 0 or 1 and its dimension; nothing for
/// a batch dimension.
std::optional<std::pair<int, int64_t>> sourceDim(DotGeneralOp op, int64_t dim) {
  int64_t position = dim - static_cast<int64_t>(op.getLhsBatch().size());
  SmallVector<int64_t> lhs = op.getLhsFree(), rhs = op.getRhsFree();
  if (position < 0)
    return std::nullopt;
  if (position < static_cast<int64_t>(lhs.size()))
    return std::make_pair(0, lhs[position]);
  return std::make_pair(1, rhs[position - lhs.size()]);
}

/// Dimension numbers once dimension `at` has become two.
SmallVector<int64_t> shifted(ArrayRef<int64_t> dims, int64_t at) {
  return llvm::map_to_vector(dims, [&](int64_t dim) { return dim > at ? dim + 1 : dim; });
}

/// The same, with both new dimensions in the place of `at`.
SmallVector<int64_t> doubled(ArrayRef<int64_t> dims, int64_t at) {
  SmallVector<int64_t> result;
  for (int64_t dim : dims) {
    result.push_back(dim > at ? dim + 1 : dim);
    if (dim == at)
      result.push_back(dim + 1);
  }
  return result;
}

} // namespace

std::optional<int64_t> mlir::autopar::majorPart(ReshapeOp reshape, int64_t dim) {
  ArrayRef<int64_t> in = reshape.getInput().getType().getShape(),
                    out = reshape.getType().getShape();
  int64_t before = llvm::product_of(in.take_front(dim)), seen = 1;
  for (auto [i, extent] : llvm::enumerate(out)) {
    if (seen == before && extent != 1)
      return extent != 0 && extent < in[dim] && in[dim] % extent == 0 ? std::optional<int64_t>(i)
                                                                      : std::nullopt;
    seen *= extent;
  }
  return std::nullopt;
}

RankedTensorType DimensionSplitter::splitType(RankedTensorType type, int64_t dim) const {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] /= blocks;
  shape.insert(shape.begin() + dim, blocks);
  return RankedTensorType::get(shape, type.getElementType());
}

//===-- whether ------------------------------------------------------------------------------===//

bool DimensionSplitter::isFollowed(Operation *op) {
  return isa<DotGeneralOp, ReshapeOp, BroadcastOp, TransposeOp>(op) ||
         (op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1);
}

bool DimensionSplitter::mergesParts(ReshapeOp op, int64_t dim) const {
  int64_t boundary = llvm::product_of(op.getType().getShape().take_front(dim)) * blocks, seen = 1;
  for (int64_t extent : op.getInput().getType().getShape()) {
    if (seen == boundary)
      break;
    seen *= extent;
  }
  return endsAtReshapes && seen == boundary;
}

bool DimensionSplitter::mayFollow(Value value, int64_t dim, int depth) const {
  Operation *op = value.getDefiningOp();
  if (op ? !isa<ConstantOp>(op) && !value.hasOneUse() : !parameters.mayChange(value))
    return false;
  return canSplit(value, dim, depth);
}

bool DimensionSplitter::canSplit(Value value, int64_t dim, int depth) const {
  if (cast<RankedTensorType>(value.getType()).getDimSize(dim) % blocks || depth == 0)
    return false;
  Operation *op = value.getDefiningOp();
  return op ? canSplitOperands(op, dim, depth - 1) : parameters.mayChange(value);
}

bool DimensionSplitter::canSplitOperands(Operation *op, int64_t dim, int depth) const {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return isa<DenseElementsAttr>(constant.getValue());
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    std::optional<int64_t> source = sourceDim(reshape, dim);
    return source ? mayFollow(reshape.getInput(), *source, depth) : mergesParts(reshape, dim);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    std::optional<int64_t> source = sourceDim(broadcast, dim);
    return !source || mayFollow(broadcast.getInput(), *source, depth);
  }
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return mayFollow(transpose.getInput(), transpose.getPermutation()[dim], depth);
  if (auto dot = dyn_cast<DotGeneralOp>(op)) {
    auto source = sourceDim(dot, dim);
    return source && mayFollow(dot->getOperand(source->first), source->second, depth);
  }
  return isFollowed(op) && llvm::all_of(op->getOperands(), [&](Value operand) {
           return mayFollow(operand, dim, depth);
         });
}

//===-- how ----------------------------------------------------------------------------------===//

Value DimensionSplitter::split(Value value, int64_t dim) {
  RankedTensorType type = splitType(cast<RankedTensorType>(value.getType()), dim);
  Operation *op = value.getDefiningOp();
  if (!op) {
    parameters.change(value, type);
    return value;
  }
  OpBuilder builder(op);
  if (auto constant = dyn_cast<ConstantOp>(op)) { // Others may read it too.
    auto part = ConstantOp::create(builder, op->getLoc(),
                                   cast<DenseElementsAttr>(constant.getValue()).reshape(type));
    if (StringRef id = getOpId(op); !id.empty())
      setOpId(part, id + "/split");
    return part;
  }
  Value result;
  if (auto dot = dyn_cast<DotGeneralOp>(op))
    result = splitDot(builder, dot, dim, type);
  else if (op->hasTrait<OpTrait::Elementwise>())
    result = splitElementwise(builder, op, dim, type);
  else
    result = splitMovement(builder, op, dim, type);
  replaced.push_back(op);
  if (auto reshape = result.getDefiningOp<ReshapeOp>();
      reshape && reshape.getInput().getType() == reshape.getType()) {
    result = reshape.getInput();
    reshape.erase();
    return result;
  }
  if (StringRef id = getOpId(op); !id.empty())
    setOpId(result.getDefiningOp(), id);
  return result;
}

Value DimensionSplitter::splitDot(OpBuilder &builder, DotGeneralOp op, int64_t dim,
                                  RankedTensorType type) {
  auto [operand, source] = *sourceDim(op, dim);
  Value part = split(op->getOperand(operand), source);
  bool isLhs = operand == 0;
  auto numbers = [&](ArrayRef<int64_t> dims, bool follows) {
    return follows ? shifted(dims, source) : SmallVector<int64_t>(dims);
  };
  auto product = DotGeneralOp::create(
      builder, op.getLoc(), type, isLhs ? part : op.getLhs(), isLhs ? op.getRhs() : part,
      numbers(op.getLhsBatch(), isLhs), numbers(op.getRhsBatch(), !isLhs),
      numbers(op.getLhsContract(), isLhs), numbers(op.getRhsContract(), !isLhs));
  product.setByteBlocksAttr(op.getByteBlocksAttr());
  return product;
}

Value DimensionSplitter::splitElementwise(OpBuilder &builder, Operation *op, int64_t dim,
                                          RankedTensorType type) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(split(operand, dim));
  OperationState state(op->getLoc(), op->getName(), operands, {type}, op->getAttrs());
  return builder.create(state)->getResult(0);
}

Value DimensionSplitter::splitMovement(OpBuilder &builder, Operation *op, int64_t dim,
                                       RankedTensorType type) {
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    std::optional<int64_t> source = sourceDim(reshape, dim);
    Value input = source ? split(reshape.getInput(), *source) : reshape.getInput();
    return ReshapeOp::create(builder, op->getLoc(), type, input);
  }
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    std::optional<int64_t> source = sourceDim(broadcast, dim);
    Value input = source ? split(broadcast.getInput(), *source) : broadcast.getInput();
    SmallVector<int64_t> dims =
        source ? doubled(broadcast.getDims(), dim) : shifted(broadcast.getDims(), dim);
    return BroadcastOp::create(builder, op->getLoc(), type, input, dims);
  }
  auto transpose = cast<TransposeOp>(op);
  int64_t source = transpose.getPermutation()[dim];
  Value input = split(transpose.getInput(), source);
  return TransposeOp::create(builder, op->getLoc(), type, input,
                             doubled(transpose.getPermutation(), source));
}

void DimensionSplitter::eraseReplaced() {
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  replaced.clear();
}
