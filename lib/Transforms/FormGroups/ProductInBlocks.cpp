// SPDX-License-Identifier: Apache-2.0
// How both sides lie in blocks, and what the left one is rounded to.
#include "ProductInBlocks.h"

using namespace mlir;
using namespace mlir::autopar;

/// The largest magnitude of a block becomes this.
static constexpr float kSteps = 127;

/// What is repeated along each block, [columns, blocks] or one number; null if `value` of `shape`
/// is nothing of that kind.
Value ProductInBlocks::perBlock(Value value, ArrayRef<int64_t> shape) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  int64_t matrix[] = {columns(), blocks()};
  if (broadcast.getDims().empty())
    return broadcast.getInput();
  if (broadcast.getInput().getType().getShape() != shape.drop_back() ||
      !llvm::equal(broadcast.getDims(), llvm::seq<int64_t>(0, shape.size() - 1)))
    return {};
  return reshaped(broadcast.getInput(), matrix, "/per.block");
}

/// (numbers - zero points) * scales in blocks, which the product alone reads.
std::optional<WeightsInBlocks> ProductInBlocks::weights() {
  Value value = product.getRhs();
  RankedTensorType type = typeOf(value);
  if (product.getRhsContract().front() != type.getRank() - 1 || !product.getRhsBatch().empty() ||
      !value.hasOneUse())
    return std::nullopt;
  SmallVector<int64_t> shape(type.getShape().drop_back());
  shape.append({blocks(), block});
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  auto scaled = value.getDefiningOp<BinaryOp>();
  if (!scaled || scaled.getKind() != BinaryKind::Mul || !scaled->hasOneUse() ||
      typeOf(value).getShape() != ArrayRef<int64_t>(shape))
    return std::nullopt;
  Value whole = scaled.getLhs(), zeros;
  auto difference = whole.getDefiningOp<BinaryOp>();
  if (difference && difference.getKind() == BinaryKind::Sub && difference->hasOneUse()) {
    whole = difference.getLhs();
    zeros = difference.getRhs();
  }
  auto widened = whole.getDefiningOp<CastOp>();
  if (!widened || !widened->hasOneUse() ||
      !typeOf(widened.getInput()).getElementType().isUnsignedInteger(8))
    return std::nullopt;
  // Several numbers of one byte lie side by side.
  Value numbers = widened.getInput();
  auto apart = numbers.getDefiningOp<ReshapeOp>();
  ArrayRef<int64_t> packed = apart ? typeOf(apart.getInput()).getShape() : ArrayRef<int64_t>();
  bool isPacked =
      packed.size() == shape.size() + 1 && packed.drop_back(2) == ArrayRef(shape).drop_back();
  int64_t parts = isPacked ? packed.back() : 1;
  if (!ByteVectors::of(dots, blocks(), block / parts))
    return std::nullopt;
  WeightsInBlocks weights;
  weights.scales = perBlock(scaled.getRhs(), shape);
  weights.zeros = zeros ? perBlock(zeros, shape) : Value();
  if (!weights.scales || (zeros && !weights.zeros))
    return std::nullopt;
  weights.numbers = reshaped(isPacked ? apart.getInput() : numbers,
                             {columns(), blocks(), block / parts, parts}, "/numbers");
  return weights;
}

/// Blocks of f32 are divided by 1/127 of their largest magnitude and rounded, as onnxruntime does
/// it.
RoundedRows ProductInBlocks::round(int64_t parts) {
  int64_t shape[] = {rows(), blocks(), block / parts, parts};
  Value blocked =
      reshaped(transposed(product.getLhs(), lhsOrder(), "/rows"), shape, "/rows.in.blocks");
  blocked = transposed(blocked, {0, 3, 1, 2}, "/rows.in.parts");
  SmallVector<int64_t> all(typeOf(blocked).getShape());
  Value largest =
      reduced(ReduceKind::Max, unary(UnaryKind::Abs, blocked, "/sizes"), {1, 3}, "/largest");
  Value steps = number(kSteps, largest, "/steps"), none = number(0, largest, "/none");
  RoundedRows rounded;
  rounded.scales = binary(BinaryKind::Div, largest, steps, "/scales");
  RankedTensorType isType = typeOf(largest).clone(builder.getI1Type());
  Value isNone = made(CompareOp::create(builder, loc, isType, ComparePredicate::Eq, largest, none),
                      "/is.none");
  Value factors = binary(BinaryKind::Div, steps, largest, "/inverse");
  factors =
      made(SelectOp::create(builder, loc, typeOf(largest), isNone, none, factors), "/factors");
  Value scaled =
      binary(BinaryKind::Mul, blocked, repeated(factors, all, {0, 2}, "/factors.all"), "/scaled");
  Value whole = unary(UnaryKind::Round, scaled, "/whole");
  rounded.bytes = cast(whole, builder.getI8Type(), "/bytes");
  Value wide = cast(rounded.bytes, builder.getI32Type(), "/wide");
  rounded.sums =
      cast(reduced(ReduceKind::Sum, wide, {1, 3}, "/bytes.sum"), builder.getF32Type(), "/sums");
  return rounded;
}

Value ProductInBlocks::roundedLhs(const RoundedRows &rounded) {
  RankedTensorType type = typeOf(product.getLhs());
  SmallVector<int64_t> order = lhsOrder(), shape, back(order.size());
  for (auto [now, before] : llvm::enumerate(order)) {
    shape.push_back(type.getDimSize(before));
    back[before] = static_cast<int64_t>(now);
  }
  Value wide = cast(rounded.bytes, builder.getF32Type(), "/rounded");
  Value scales = repeated(rounded.scales, typeOf(wide).getShape(), {0, 2}, "/rounded.scales");
  Value value = binary(BinaryKind::Mul, wide, scales, "/rounded.rows");
  return transposed(reshaped(value, shape, "/rounded.shape"), back, "/rounded.lhs");
}

void ProductInBlocks::replaceProduct(Value result) {
  result = reshaped(result, product.getType().getShape(), "/reshape");
  product.getResult().replaceAllUsesWith(result);
  SmallVector<Operation *> unread{product};
  while (!unread.empty()) {
    Operation *op = unread.pop_back_val();
    if (!op->use_empty() || !isMemoryEffectFree(op))
      continue;
    SetVector<Operation *> makers;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        makers.insert(maker);
    op->erase();
    llvm::append_range(unread, makers);
  }
}
