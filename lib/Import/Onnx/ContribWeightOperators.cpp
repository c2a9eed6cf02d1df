// SPDX-License-Identifier: Apache-2.0
// onnxruntime's products and lookups with weights of 2, 4 or 8 bits: the bytes of a weight stay the
// parameter that they are in the file, and the program takes them apart.
#include "Contractions.h"
#include "PackedNumbers.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// A weight [rows, columns] in blocks along its columns, each with a scale and a zero point.
struct BlockedWeight {
  Node &node;
  int64_t rows = 0, columns = 0, blockSize = 0, bits = 0, blocks = 0;

  LogicalResult read();
  LogicalResult checkCount(size_t i, int64_t count, const Twine &what);
  FailureOr<Value> zeroPoints(size_t i, Type element);
  FailureOr<Value> spread(Value perBlock);
};
} // namespace

/// The attributes of MatMulNBits, and what its input 1 must be with them.
LogicalResult BlockedWeight::read() {
  rows = node.integer("N", 0), columns = node.integer("K", 0);
  blockSize = node.integer("block_size", 0), bits = node.integer("bits", 4);
  auto isExtent = [](int64_t extent) { return extent > 0 && extent <= (int64_t(1) << 40); };
  if (!isExtent(rows) || !isExtent(columns))
    return node.error("attributes 'N' and 'K' must be positive");
  if (bits != 2 && bits != 4 && bits != 8)
    return node.error("attribute 'bits' must be 2, 4 or 8, not " + Twine(bits));
  if (blockSize < 16 || blockSize > (1 << 30) || (blockSize & (blockSize - 1)))
    return node.error("attribute 'block_size' must be a power of two from 16 on, not " +
                      Twine(blockSize));
  if (int64_t layout = node.integer("weight_prepacked", 0))
    return node.error("attribute 'weight_prepacked' = " + Twine(layout) +
                      " is a GPU's own order of bytes; give the weight as it was before");
  blocks = (columns + blockSize - 1) / blockSize;
  Shape expected{rows, blocks, blockSize * bits / 8};
  RankedTensorType weight = node.inputType(1);
  if (!weight.getElementType().isUnsignedInteger(8) ||
      weight.getNumElements() != expected[0] * expected[1] * expected[2])
    return node.inputError(1, "must be bytes of shape " + printShape(expected));
  return checkCount(2, rows * blocks, "one scale per block");
}

LogicalResult BlockedWeight::checkCount(size_t i, int64_t count, const Twine &what) {
  if (node.inputType(i).getNumElements() == count)
    return success();
  return node.inputError(i, "must hold " + Twine(count) + " elements, " + what);
}

/// Input `i` or what stands for it, [rows, blocks]; where it is of bytes, each row of it begins
/// with a new byte.
FailureOr<Value> BlockedWeight::zeroPoints(size_t i, Type element) {
  TensorBuilder &b = node.b;
  if (!node.hasInput(i))
    return b.scalar(element, static_cast<double>(1 << (bits - 1)));
  if (!node.inputType(i).getElementType().isUnsignedInteger(8)) {
    if (failed(checkCount(i, rows * blocks, "one zero point per block")))
      return failure();
    return b.cast(b.reshape(node.input(i), {rows, blocks}), element);
  }
  if (node.hasInput(4))
    return node.inputError(i, "is packed, which onnxruntime reads in several ways where there is "
                              "g_idx; give zero points of the type of A");
  int64_t bytes = (blocks * bits + 7) / 8;
  if (failed(checkCount(i, rows * bytes, "zero points of " + Twine(bits) + " bits per row")))
    return failure();
  Value points =
      unpackedNumbers(b, b.reshape(node.input(i), {rows, bytes}), static_cast<unsigned>(bits));
  return b.cast(b.sliceDim(points, 1, 0, blocks), element);
}

/// What is given per block, for each element: [rows, blocks, blockSize]. By input 4, which puts
/// columns into groups in another order, for each column: [rows, columns].
FailureOr<Value> BlockedWeight::spread(Value perBlock) {
  TensorBuilder &b = node.b;
  if (TensorBuilder::rankOf(perBlock) == 0)
    return perBlock;
  if (!node.hasInput(4))
    return b.broadcast(perBlock, {rows, blocks, blockSize}, {0, 1});
  Value groups = b.cast(node.input(4), b.opBuilder().getI64Type());
  if (TensorBuilder::rankOf(groups) != 1 || TensorBuilder::shapeOf(groups)[0] < columns)
    return node.inputError(4, "must hold the group of each of " + Twine(columns) + " columns");
  groups = b.unsqueeze(b.sliceDim(groups, 0, 0, columns), {1});
  return b.gather(perBlock, groups, {1}, 0);
}

/// A times the transpose of (weight - zero point) * scale.
static LogicalResult importMatMulNBits(Node &node) {
  TensorBuilder &b = node.b;
  BlockedWeight weight{node};
  if (failed(weight.read()))
    return failure();
  Value x = node.input(0);
  int64_t rank = TensorBuilder::rankOf(x);
  if (rank < 1 || TensorBuilder::shapeOf(x).back() != weight.columns)
    return node.inputError(0, "must have " + Twine(weight.columns) + " columns");
  Type element = TensorBuilder::elementOf(x);
  FailureOr<Value> points = weight.zeroPoints(3, element);
  if (failed(points))
    return failure();
  Value scales = b.cast(b.reshape(node.input(2), {weight.rows, weight.blocks}), element);
  FailureOr<Value> zero = weight.spread(*points), scale = weight.spread(scales);
  if (failed(zero) || failed(scale))
    return failure();
  Value numbers = unpackedNumbers(
      b, b.reshape(node.input(1), {weight.rows, weight.blocks, weight.blockSize * weight.bits / 8}),
      static_cast<unsigned>(weight.bits));
  Shape flat{weight.rows, weight.blocks * weight.blockSize};
  auto inMatrix = [&](Value value) {
    return b.sliceDim(b.reshape(value, flat), 1, 0, weight.columns);
  };
  numbers = b.cast(numbers, element);
  if (node.hasInput(4))
    numbers = inMatrix(numbers);
  Value matrix = b.mul(b.sub(numbers, *zero), *scale);
  if (!node.hasInput(4))
    matrix = inMatrix(matrix);
  Value y = b.dot(x, matrix, {}, {}, {rank - 1}, {1});
  if (node.hasInput(5)) {
    if (failed(weight.checkCount(5, weight.rows, "one per column of the result")))
      return failure();
    y = b.add(y, b.reshape(node.input(5), {weight.rows}));
  }
  return node.result(y);
}

void mlir::autopar::addContribWeightOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("MatMulNBits", {1}, {3, 6}, "K N accuracy_level bits block_size weight_prepacked",
            importMatMulNBits);
  table.inDomain("");
}
