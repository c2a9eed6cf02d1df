// SPDX-License-Identifier: Apache-2.0
// For many rows: the kernel block_dot takes the bytes that weights and zero points are made of.
#include "ProductInBlocks.h"

#include "autopar/Transforms/FewRows.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether each element of `value` is this whole number.
static bool isAll(Value value, int64_t number) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         elements.getSplatValue<APInt>() == number;
}

/// What `parts` numbers of fewer bits are made of that lie in each byte, the lowest bits first;
/// null if `numbers`, which may be in another shape, are made in another way.
static Value packedIn(Value numbers, int64_t parts) {
  int64_t bits = 8 / parts;
  while (auto reshape = numbers.getDefiningOp<ReshapeOp>())
    numbers = reshape.getInput();
  auto masked = numbers.getDefiningOp<BinaryOp>();
  if (!masked || masked.getKind() != BinaryKind::And || !isAll(masked.getRhs(), (1 << bits) - 1))
    return {};
  auto shifted = masked.getLhs().getDefiningOp<BinaryOp>();
  if (!shifted || shifted.getKind() != BinaryKind::ShiftRight)
    return {};
  auto bytes = shifted.getLhs().getDefiningOp<BroadcastOp>(),
       starts = shifted.getRhs().getDefiningOp<BroadcastOp>();
  int64_t last = typeOf(numbers).getRank() - 1;
  if (!bytes || !llvm::equal(bytes.getDims(), llvm::seq<int64_t>(0, last)) || !starts ||
      starts.getDims() != ArrayRef<int64_t>{last})
    return {};
  DenseElementsAttr places;
  if (!matchPattern(starts.getInput(), m_Constant(&places)) || places.getNumElements() != parts)
    return {};
  for (auto [part, start] : llvm::enumerate(places.getValues<APInt>()))
    if (start != part * bits)
      return {};
  return bytes.getInput();
}

/// [columns, blocks, block / parts].
Value ProductInBlocks::bytesOf(const WeightsInBlocks &weights) {
  ArrayRef<int64_t> shape = typeOf(weights.numbers).getShape().drop_back();
  if (!BlockDotOp::isPossible(columns(), blocks(), shape.back(), weights.parts()))
    return {};
  Value bytes = weights.parts() == 1 ? weights.numbers : packedIn(weights.numbers, weights.parts());
  return bytes ? reshaped(bytes, shape, "/weights.bytes") : Value();
}

/// What is given per column and block, as [columns / 16, blocks, 16], laid out at load where it is
/// known there; one number stays one.
Value ProductInBlocks::inLanes(Value perBlock, const Twine &suffix) {
  constexpr int64_t lanes = BlockDotOp::columnLanes;
  if (typeOf(perBlock).getRank() == 0)
    return perBlock;
  int64_t shape[] = {columns() / lanes, lanes, typeOf(perBlock).getDimSize(1)};
  Value laidOut = transposed(reshaped(perBlock, shape, suffix + ".columns"), {0, 2, 1}, suffix);
  laidOut.getDefiningOp()->setAttr(kLaidOut, builder.getUnitAttr());
  return laidOut;
}

/// Zero points as the bytes that they are made of: with several in each where rows of them are
/// whole bytes.
Value ProductInBlocks::zerosInLanes(const WeightsInBlocks &weights) {
  Value zeros = weights.zeros;
  while (auto reshape = zeros.getDefiningOp<ReshapeOp>())
    zeros = reshape.getInput();
  auto widened = zeros.getDefiningOp<CastOp>();
  if (!widened || !typeOf(widened.getInput()).getElementType().isUnsignedInteger(8))
    return inLanes(weights.zeros, "/zeros.in.lanes");
  Value bytes = widened.getInput();
  if (typeOf(bytes).getRank() == 0)
    return bytes;
  int64_t parts = weights.parts();
  Value packed = parts > 1 ? packedIn(bytes, parts) : Value();
  if (packed && typeOf(packed).getNumElements() * parts == columns() * blocks())
    bytes = reshaped(packed, {columns(), blocks() / parts}, "/zeros.packed");
  else
    bytes = reshaped(bytes, {columns(), blocks()}, "/zeros.bytes");
  return inLanes(bytes, "/zeros.in.lanes");
}

void ProductInBlocks::multiplyInTiles(const RoundedRows &lhs, const WeightsInBlocks &rhs,
                                      Value bytes) {
  Value scales = inLanes(rhs.scales, "/scales.in.lanes"), zeros;
  if (typeOf(scales).getRank() == 0)
    scales =
        repeated(scales, {columns() / BlockDotOp::columnLanes, blocks(), BlockDotOp::columnLanes},
                 {}, "/scales.in.lanes");
  if (rhs.zeros)
    zeros = zerosInLanes(rhs);
  auto type = RankedTensorType::get({rows(), columns()}, builder.getF32Type());
  auto tiles = BlockDotOp::create(builder, loc, type, lhs.bytes, lhs.scales, bytes, scales, zeros,
                                  zeros ? lhs.sums : Value());
  tiles->setAttr(kByteSum, builder.getStringAttr(nameOf(dots)));
  replaceProduct(made(tiles, ""));
}
