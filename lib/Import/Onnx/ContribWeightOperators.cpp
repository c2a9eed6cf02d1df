// SPDX-License-Identifier: Apache-2.0
// onnxruntime's products and lookups with weights of 2, 4 or 8 bits: the bytes of a weight stay the
// parameter that they are in the file, and the program takes them apart.
#include "PackedNumbers.h"
#include "Quantization.h"

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
  bool mayRoundRows();
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

/// Whether A may be rounded to 8 bits in blocks of the weight's: by attribute accuracy_level, where
/// onnxruntime does it too.
bool BlockedWeight::mayRoundRows() {
  constexpr int64_t inBytes = 4;
  bool arePacked = !node.hasInput(3) || node.inputType(3).getElementType().isUnsignedInteger(8);
  return node.integer("accuracy_level", 0) == inBytes && columns % blockSize == 0 && arePacked &&
         !node.hasInput(4) && node.inputType(0).getElementType().isF32();
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
  if (weight.mayRoundRows())
    y.getDefiningOp<DotGeneralOp>().setByteBlocks(weight.blockSize);
  if (node.hasInput(5)) {
    if (failed(weight.checkCount(5, weight.rows, "one per column of the result")))
      return failure();
    y = b.add(y, b.reshape(node.input(5), {weight.rows}));
  }
  return node.result(y);
}

//===-- 16 floats ----------------------------------------------------------------------------===//

/// What the 16 numbers of 4 bits stand for in the formats of bitsandbytes: FP4 (sign, two bits of
/// exponent, one of mantissa, the largest 1) and NF4 (quantiles of the normal distribution,
/// Dettmers et al. 2023, appendix E).
static constexpr double tableFp4[] = {0,       0.0625 / 12, 2.0 / 3, 1,
                                      1.0 / 3, 1.0 / 2,     1.0 / 6, 1.0 / 4},
                        tableNf4[] = {-1.0,
                                      -0.6961928009986877,
                                      -0.5250730514526367,
                                      -0.39491748809814453,
                                      -0.28444138169288635,
                                      -0.18477343022823334,
                                      -0.09105003625154495,
                                      0.0,
                                      0.07958029955625534,
                                      0.16093020141124725,
                                      0.24611230194568634,
                                      0.33791524171829224,
                                      0.44070982933044434,
                                      0.5626170039176941,
                                      0.7229568362236023,
                                      1.0};

/// A times the transposed weight [N, K]: numbers of 4 bits, the upper ones of a
/// byte first, that stand for floats, times the largest magnitude of their block of the flat
/// weight.
static LogicalResult importMatMulBnb4(Node &node) {
  TensorBuilder &b = node.b;
  int64_t rows = node.integer("N", 0), columns = node.integer("K", 0),
          block = node.integer("block_size", 0), format = node.integer("quant_type", -1);
  auto isExtent = [](int64_t extent) { return extent > 0 && extent <= (1 << 30); };
  if (!isExtent(rows) || !isExtent(columns) || !isExtent(block))
    return node.error("attributes 'N', 'K' and 'block_size' must be positive");
  if (format != 0 && format != 1)
    return node.error("attribute 'quant_type' must be 0 (FP4) or 1 (NF4)");
  if (node.integer("transB", 1) == 0)
    return node.error("attribute 'transB' = 0, of the pass back of a training, is not supported");
  int64_t count = rows * columns, bytes = (count + 1) / 2, blocks = (count + block - 1) / block;
  if (!node.inputType(1).getElementType().isUnsignedInteger(8) ||
      node.inputType(1).getNumElements() != bytes || node.inputType(2).getNumElements() != blocks)
    return node.error("needs " + Twine(bytes) + " bytes of weights and " + Twine(blocks) +
                      " magnitudes for them");
  Value x = node.input(0);
  int64_t rank = TensorBuilder::rankOf(x);
  if (rank < 1 || TensorBuilder::shapeOf(x).back() != columns)
    return node.inputError(0, "must have " + Twine(columns) + " columns");
  bool isEven = columns % 2 == 0; // rows begin with a byte, and can be shared by devices
  Value packed = b.reshape(node.input(1), isEven ? Shape{rows, columns / 2} : Shape{bytes});
  Value numbers = unpackedNumbers(b, packed, 4, /*highFirst=*/true);
  if (!isEven)
    numbers = b.reshape(b.sliceDim(numbers, 0, 0, count), {rows, columns});
  SmallVector<double> table(std::begin(tableNf4), std::end(tableNf4));
  if (format == 0) {
    table.assign(std::begin(tableFp4), std::end(tableFp4));
    for (double value : tableFp4)
      table.push_back(-value);
  }
  Type element = TensorBuilder::elementOf(x);
  Value places = b.unsqueeze(b.cast(numbers, b.opBuilder().getI32Type()), {2});
  Value values = b.gather(b.floats(table, {16}, element), places, {0}, 0);
  bool fillsRows = columns % block == 0;
  FailureOr<Value> magnitudes =
      repeatBlocks(node,
                   b.reshape(b.cast(node.input(2), element),
                             fillsRows ? Shape{rows, columns / block} : Shape{blocks}),
                   fillsRows ? Shape{rows, columns} : Shape{count}, fillsRows ? 1 : 0, block);
  if (failed(magnitudes))
    return failure();
  Value matrix = b.mul(values, b.reshape(*magnitudes, {rows, columns}));
  return node.result(b.dot(x, matrix, {}, {}, {rank - 1}, {1}));
}

//===-- lookups ------------------------------------------------------------------------------===//

/// Gather of a table in blocks along one of its other dimensions: what is read is dequantized.
static LogicalResult importGatherBlockQuantized(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType data = node.inputType(0);
  int64_t bits = node.integer("bits", 4), block = node.integer("block_size", 128);
  FailureOr<int64_t> axis = node.axis(node.integer("gather_axis", 0), data.getRank()),
                     along = node.axis(node.integer("quantize_axis", 1), data.getRank());
  if (failed(axis) || failed(along))
    return failure();
  bool isBytes = data.getElementType().isUnsignedInteger(8);
  if (!isBytes && !data.getElementType().isInteger(4))
    return node.inputError(0, "must be of bytes or of integers of 4 bits");
  if (bits != 2 && bits != 4 && bits != 8)
    return node.error("attribute 'bits' must be 2, 4 or 8, not " + Twine(bits));
  int64_t perByte = isBytes ? 8 / bits : 1, last = data.getRank() - 1;
  if (*axis == *along || (perByte > 1 && *axis == last))
    return node.error("gathers along dimension " + Twine(*axis) +
                      ", in which numbers lie in blocks or bytes");
  if (block < 1)
    return node.error("attribute 'block_size' must be positive");
  Shape blocks(data.getShape()); // of scales
  blocks[last] *= perByte;
  int64_t extent = blocks[*along];
  blocks[*along] = (extent + block - 1) / block;
  Shape packed(blocks); // of zero points
  packed[last] = (packed[last] + perByte - 1) / perByte;
  if (node.inputType(2).getShape() != ArrayRef<int64_t>(blocks))
    return node.inputError(2, "must be of shape " + printShape(blocks));
  if (node.hasInput(3) && node.inputType(3).getShape() != ArrayRef<int64_t>(packed))
    return node.inputError(3, "must be of shape " + printShape(packed));

  Value indices = b.cast(node.input(1), b.opBuilder().getI64Type());
  int64_t rank = TensorBuilder::rankOf(indices);
  auto gather = [&](Value table) {
    return b.gather(table, b.unsqueeze(indices, {rank}), {*axis}, 0);
  };
  // Whole numbers as f32, `count` of them along the last dimension.
  auto numbers = [&](Value table, int64_t count) {
    Value read = gather(table);
    if (perByte > 1)
      read = b.sliceDim(unpackedNumbers(b, read, static_cast<unsigned>(bits)),
                        TensorBuilder::rankOf(read) - 1, 0, count);
    return b.cast(read, b.opBuilder().getF32Type());
  };
  Value values = numbers(node.input(0), data.getShape()[last] * perByte);
  int64_t place = *along < *axis ? *along : *along + rank - 1; // of the blocks in what is read
  auto repeated = [&](Value perBlock) {
    return repeatBlocks(node, perBlock, TensorBuilder::shapeOf(values), place, block);
  };
  if (node.hasInput(3)) {
    FailureOr<Value> points = repeated(numbers(node.input(3), blocks[last]));
    if (failed(points))
      return failure();
    values = b.sub(values, *points);
  } else if (isBytes) {
    values = b.binary(BinaryKind::Sub, values, static_cast<double>(1 << (bits - 1)));
  }
  FailureOr<Value> scales = repeated(b.cast(gather(node.input(2)), b.opBuilder().getF32Type()));
  if (failed(scales))
    return failure();
  Value y = b.mul(values, *scales);
  // Nothing is at positions outside the table.
  Value size = b.scalar(b.opBuilder().getI64Type(), data.getShape()[*axis]);
  Value inside = b.binary(BinaryKind::And, b.compare(ComparePredicate::Lt, indices, size),
                          b.compare(ComparePredicate::Ge, indices,
                                    b.scalar(b.opBuilder().getI64Type(), -data.getShape()[*axis])));
  inside = b.broadcast(inside, TensorBuilder::shapeOf(y),
                       llvm::to_vector(llvm::seq(*axis, *axis + rank)));
  y = b.select(inside, y, b.splatLike(y, 0));
  return node.result(b.cast(y, node.inputType(2).getElementType()));
}

void mlir::autopar::addContribWeightOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("MatMulNBits", {1}, {3, 6}, "K N accuracy_level bits block_size weight_prepacked",
            importMatMulNBits);
  table.add("MatMulBnb4", {1}, {3, 3}, "K N block_size quant_type training_mode transB",
            importMatMulBnb4);
  table.add("GatherBlockQuantized", {1}, {3, 4}, "bits block_size gather_axis quantize_axis",
            importGatherBlockQuantized);
  table.refuse("MatMulFpQ4", "its bytes are in an order that onnxruntime does not document");
  table.inDomain("");
}
