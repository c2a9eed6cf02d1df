// SPDX-License-Identifier: Apache-2.0
// Quantization as cast arithmetic: scales and zero points per tensor, per axis or per block;
// products of integers are computed exactly in i32.
#include "Quantization.h"

#include "Contractions.h"
#include "Convolutions.h"

#include "autopar/Interfaces/ElementTypes.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::isSmallInteger(Type element) {
  auto integer = dyn_cast<IntegerType>(element);
  return integer && integer.getWidth() >= 2 && integer.getWidth() <= 32;
}

/// Smallest and largest number of an integer type of at most 32 bits.
static std::pair<double, double> rangeOf(Type element) {
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isUnsignedInteger())
    return {0, std::ldexp(1.0, static_cast<int>(width)) - 1};
  return {-std::ldexp(1.0, static_cast<int>(width) - 1),
          std::ldexp(1.0, static_cast<int>(width) - 1) - 1};
}

FailureOr<Value> mlir::autopar::repeatBlocks(Node &node, Value value, ArrayRef<int64_t> shape,
                                             int64_t along, int64_t block) {
  TensorBuilder &b = node.b;
  if (shape[along] % block == 0) { // no positions, by which devices could not share the axis
    Shape blocks(TensorBuilder::shapeOf(value));
    blocks.insert(blocks.begin() + along + 1, block);
    SmallVector<int64_t> dims;
    for (int64_t dim = 0; dim <= static_cast<int64_t>(shape.size()); ++dim)
      if (dim != along + 1)
        dims.push_back(dim);
    return b.reshape(b.broadcast(value, blocks, dims), shape);
  }
  SmallVector<int64_t> positions;
  constexpr int64_t most = 1 << 24;
  if (shape[along] > most)
    return node.error("the quantized axis is too long");
  for (int64_t at = 0; at < shape[along]; ++at)
    positions.push_back(at / block);
  return b.take(value, positions, along);
}

/// A scale or zero point repeated to `shape`: one number, one per position along `axis`, or one per
/// block.
static FailureOr<Value> spread(Node &node, size_t i, ArrayRef<int64_t> shape, int64_t axis,
                               int64_t block) {
  TensorBuilder &b = node.b;
  Value value = node.input(i);
  if (TensorBuilder::typeOf(value).getNumElements() == 1)
    return b.reshape(value, {});
  auto rank = static_cast<int64_t>(shape.size());
  FailureOr<int64_t> along = node.axis(axis, rank);
  if (failed(along))
    return failure();
  if (TensorBuilder::rankOf(value) == 1) {
    if (TensorBuilder::shapeOf(value)[0] != shape[*along])
      return node.inputError(i, "must hold " + Twine(shape[*along]) + " numbers, one along axis " +
                                    Twine(*along));
    return b.broadcast(value, shape, {*along});
  }
  Shape expected(shape);
  if (block > 0 && TensorBuilder::rankOf(value) == rank) {
    expected[*along] = shape[*along] / block + (shape[*along] % block != 0);
    if (TensorBuilder::shapeOf(value) == ArrayRef<int64_t>(expected))
      return repeatBlocks(node, value, shape, *along, block);
  }
  return node.inputError(i, "of shape " + printShape(TensorBuilder::shapeOf(value)) +
                                " does not fit input " + printShape(shape));
}

Value mlir::autopar::quantize(TensorBuilder &b, Value x, Value scale, Value zeroPoint,
                              Type target) {
  Type wide = b.opBuilder().getF32Type();
  Value y = b.cast(x, wide);
  y = b.unary(UnaryKind::Round, scale ? b.div(y, b.cast(scale, wide)) : y);
  if (zeroPoint)
    y = b.add(y, b.cast(zeroPoint, wide));
  auto [low, high] = rangeOf(target);
  // The largest i32 is no f32; the next smaller one saturates as well.
  high = target.getIntOrFloatBitWidth() == 32 ? high - 127 : high;
  return b.cast(b.binary(BinaryKind::Min, b.binary(BinaryKind::Max, y, low), high), target);
}

/// x / scale, rounded to a float of 8 bits or less.
static Value quantizeToFloat(TensorBuilder &b, Value x, Value scale, Type target, bool overflows) {
  Type wide = b.opBuilder().getF32Type();
  return b.cast(b.div(b.cast(x, wide), b.cast(scale, wide)), target, overflows);
}

static LogicalResult importQuantizeLinear(Node &node) {
  Type byDefault = IntegerType::get(node.b.getContext(), 8, IntegerType::Unsigned);
  FailureOr<Type> target = node.elementType("output_dtype", byDefault);
  if (node.integer("output_dtype", 0) == 0)
    target = byDefault;
  if (failed(target))
    return failure();
  if (node.hasInput(2))
    target = node.inputType(2).getElementType();
  if (!isSmallInteger(*target) && !isByteFloat(*target))
    return node.error("quantizes to integers of 2 to 32 bits and floats of 8 bits and less only");
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  int64_t axis = node.integer("axis", 1), block = node.integer("block_size", 0);
  FailureOr<Value> scale = spread(node, 1, shape, axis, block);
  FailureOr<Value> zero =
      node.hasInput(2) ? spread(node, 2, shape, axis, block) : FailureOr<Value>(Value());
  if (failed(scale) || failed(zero))
    return failure();
  if (isByteFloat(*target)) // whose zero points are zero
    return node.result(
        quantizeToFloat(node.b, node.input(0), *scale, *target, !node.integer("saturate", 1)));
  return node.result(quantize(node.b, node.input(0), *scale, *zero, *target));
}

static LogicalResult importDequantizeLinear(Node &node) {
  TensorBuilder &b = node.b;
  Type element = node.inputType(0).getElementType();
  if (!isSmallInteger(element) && !isByteFloat(element))
    return node.inputError(0, "must be of integers of 2 to 32 bits or floats of 8 bits and less");
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  int64_t axis = node.integer("axis", 1), block = node.integer("block_size", 0);
  FailureOr<Value> scale = spread(node, 1, shape, axis, block);
  FailureOr<Value> zero =
      node.hasInput(2) ? spread(node, 2, shape, axis, block) : FailureOr<Value>(Value());
  FailureOr<Type> target = node.elementType("output_dtype", node.inputType(1).getElementType());
  if (node.integer("output_dtype", 0) == 0)
    target = node.inputType(1).getElementType();
  if (failed(scale) || failed(zero) || failed(target))
    return failure();
  Type wide = b.opBuilder().getF32Type(),
       exact = isByteFloat(element) ? wide : b.opBuilder().getI32Type();
  Value x = b.cast(node.input(0), exact);
  if (*zero)
    x = b.sub(x, b.cast(*zero, exact));
  return node.result(b.cast(b.mul(b.cast(x, wide), b.cast(*scale, wide)), *target));
}

/// The range of the values always contains 0.
DynamicallyQuantized mlir::autopar::quantizeDynamically(TensorBuilder &b, Value x) {
  Type f32 = b.opBuilder().getF32Type(),
       u8 = IntegerType::get(b.getContext(), 8, IntegerType::Unsigned);
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, TensorBuilder::rankOf(x)));
  Value zero = b.scalar(f32, 0.0);
  Value high = b.maximum(b.reduce(ReduceKind::Max, x, all), zero);
  Value low = b.minimum(b.reduce(ReduceKind::Min, x, all), zero);
  Value scale = b.binary(BinaryKind::Div, b.sub(high, low), 255.0);
  // A tensor of zeros has any scale; 1 keeps it finite.
  Value isZero = b.compare(ComparePredicate::Eq, scale, zero);
  Value divisor = b.select(isZero, b.scalar(f32, 1.0), scale);
  Value point = b.unary(UnaryKind::Round, b.sub(zero, b.div(low, divisor)));
  point = b.cast(b.binary(BinaryKind::Min, b.binary(BinaryKind::Max, point, 0.0), 255.0), u8);
  return {quantize(b, x, divisor, point, u8), scale, point};
}

static LogicalResult importDynamicQuantizeLinear(Node &node) {
  auto [numbers, scale, zeroPoint] = quantizeDynamically(node.b, node.input(0));
  node.setOutput(0, numbers);
  node.setOutput(1, scale);
  node.setOutput(2, zeroPoint);
  return success();
}

//===-- integer products ---------------------------------------------------------------------===//

Value mlir::autopar::centered(Node &node, size_t i, size_t zero, int64_t dim) {
  TensorBuilder &b = node.b;
  Type i32 = b.opBuilder().getI32Type();
  Value x = b.cast(node.input(i), i32);
  if (!node.hasInput(zero))
    return x;
  Value point = b.cast(node.input(zero), i32);
  int64_t count = TensorBuilder::typeOf(point).getNumElements();
  if (count == 1)
    return b.sub(x, b.reshape(point, {}));
  if (TensorBuilder::rankOf(point) == 1 && dim >= 0 && dim < TensorBuilder::rankOf(x))
    return b.sub(x, b.broadcast(point, TensorBuilder::shapeOf(x), {dim}));
  return b.sub(x, point); // one per row of each matrix, shaped to broadcast
}

static LogicalResult importMatMulInteger(Node &node) {
  Value lhs = centered(node, 0, 2, node.inputType(0).getRank() - 2),
        rhs = centered(node, 1, 3, node.inputType(1).getRank() - 1);
  return node.result(matrixProduct(node, lhs, rhs));
}

static LogicalResult importConvInteger(Node &node) {
  FailureOr<Value> y = convolve(node, centered(node, 0, 2, -1), centered(node, 1, 3, 0));
  return failed(y) ? failure() : node.result(*y);
}

/// `accumulated` i32 products times lhsScale * rhsScale / scale, quantized.
static FailureOr<Value> requantize(Node &node, Value accumulated, size_t lhsScale, size_t rhsScale,
                                   int64_t rhsDim, size_t scale) {
  TensorBuilder &b = node.b;
  Type f32 = b.opBuilder().getF32Type(), target = node.inputType(scale + 1).getElementType();
  if (!isSmallInteger(target))
    return node.inputError(scale + 1, "must be of integers of 2 to 32 bits");
  auto spreadScale = [&](size_t i, int64_t dim) {
    Value value = b.cast(node.input(i), f32);
    if (TensorBuilder::typeOf(value).getNumElements() == 1)
      return b.reshape(value, {});
    return TensorBuilder::rankOf(value) == 1
               ? b.broadcast(value, TensorBuilder::shapeOf(accumulated), {dim})
               : value;
  };
  int64_t rows = std::max<int64_t>(TensorBuilder::rankOf(accumulated) - 2, 0);
  Value factor = b.mul(spreadScale(lhsScale, rows), spreadScale(rhsScale, rhsDim));
  Value real = b.mul(b.cast(accumulated, f32), factor);
  return quantize(b, real, b.reshape(node.input(scale), {}), b.reshape(node.input(scale + 1), {}),
                  target);
}

/// Inputs: a, its scale and zero point, b, its scale and zero point, result scale and zero point.
static LogicalResult importQLinearMatMul(Node &node) {
  Value lhs = centered(node, 0, 2, node.inputType(0).getRank() - 2),
        rhs = centered(node, 3, 5, node.inputType(3).getRank() - 1);
  Value product = matrixProduct(node, lhs, rhs);
  FailureOr<Value> y =
      requantize(node, product, 1, 4, std::max<int64_t>(TensorBuilder::rankOf(product) - 1, 0), 6);
  return failed(y) ? failure() : node.result(*y);
}

static LogicalResult importQLinearConv(Node &node) {
  TensorBuilder &b = node.b;
  bool channelsLast = node.integer("channels_last", 0) != 0;
  Value x = centered(node, 0, 2, -1);
  FailureOr<Value> y =
      convolve(node, channelsLast ? channelsFirst(b, x) : x, centered(node, 3, 5, 0));
  if (failed(y))
    return failure();
  if (node.hasInput(8))
    y = addChannelBias(b, *y, b.cast(node.input(8), b.opBuilder().getI32Type()));
  y = requantize(node, *y, 1, 4, 1, 6);
  if (failed(y))
    return failure();
  return node.result(channelsLast ? channelsToEnd(b, *y) : *y);
}

void mlir::autopar::addQuantizationOperators(OperatorTable &table) {
  table.add("QuantizeLinear", {10}, {2, 3}, "axis block_size output_dtype precision saturate",
            importQuantizeLinear);
  table.add("DequantizeLinear", {10}, {2, 3}, "axis block_size output_dtype",
            importDequantizeLinear);
  table.add("DynamicQuantizeLinear", {11}, {1, 1}, "", importDynamicQuantizeLinear);
  table.add("MatMulInteger", {10}, {2, 4}, "", importMatMulInteger);
  const StringRef window = "auto_pad dilations group kernel_shape pads strides";
  table.add("ConvInteger", {10}, {2, 4}, window, importConvInteger);
  table.add("QLinearMatMul", {10}, {8, 8}, "", importQLinearMatMul);
  table.add("QLinearConv", {10}, {8, 9}, window, importQLinearConv);
  table.inDomain("com.microsoft"); // which have more element types, or another layout
  table.add("QuantizeLinear", {1}, {2, 3}, "axis block_size", importQuantizeLinear);
  table.add("DequantizeLinear", {1}, {2, 3}, "axis block_size", importDequantizeLinear);
  table.add("QLinearConv", {1}, {8, 9},
            "auto_pad channels_last dilations group kernel_shape pads strides", importQLinearConv);
  table.inDomain("");
}
