// SPDX-License-Identifier: Apache-2.0
// onnxruntime's operators between quantized tensors, and its products of whole numbers that yield
// floats. Sums are of whole numbers, exact in any order; what is nonlinear is computed in f32
// between DequantizeLinear and QuantizeLinear.
#include "Quantization.h"

#include "Activations.h"
#include "Contractions.h"
#include "Convolutions.h"
#include "Poolings.h"

using namespace mlir;
using namespace mlir::autopar;

static Type f32Of(Node &node) { return node.b.opBuilder().getF32Type(); }

/// Input `i`, one number as f32.
static FailureOr<Value> number(Node &node, size_t i) {
  if (!node.hasInput(i))
    return node.inputError(i, "is missing");
  if (node.inputType(i).getNumElements() != 1)
    return node.inputError(i, "must be one number");
  return node.b.reshape(node.b.cast(node.input(i), f32Of(node)), {});
}

/// Input `i` less the zero point behind its scale, whole numbers as f32.
static FailureOr<Value> wholeNumbers(Node &node, size_t i) {
  if (!node.hasInput(i) || !isSmallInteger(node.inputType(i).getElementType()))
    return node.inputError(i, "must be of integers of 2 to 32 bits");
  if (node.hasInput(i + 2) && failed(number(node, i + 2)))
    return failure();
  return node.b.cast(centered(node, i, i + 2, -1), f32Of(node));
}

/// Input `i` times the scale behind it.
static FailureOr<Value> real(Node &node, size_t i) {
  FailureOr<Value> whole = wholeNumbers(node, i), scale = number(node, i + 1);
  if (failed(whole) || failed(scale))
    return failure();
  return node.b.mul(*whole, *scale);
}

/// `x` (in steps of input `scale`, or already counted in them) with the zero point behind that
/// input, of the type of the zero point or, without one, of input `like`.
static LogicalResult quantizedResult(Node &node, FailureOr<Value> x, size_t scale, size_t like = 0,
                                     bool isCounted = false) {
  FailureOr<Value> step = number(node, scale);
  if (failed(x) || failed(step))
    return failure();
  Value zeroPoint;
  if (node.hasInput(scale + 1)) {
    if (failed(number(node, scale + 1)))
      return failure();
    zeroPoint = node.b.reshape(node.input(scale + 1), {});
    like = scale + 1;
  }
  Type target = node.inputType(like).getElementType();
  if (!isSmallInteger(target))
    return node.inputError(like, "must be of integers of 2 to 32 bits");
  return node.result(quantize(node.b, *x, isCounted ? Value() : *step, zeroPoint, target));
}

//===-- element by element -------------------------------------------------------------------===//

// Results are counted in steps by ratios of scales, as onnxruntime does: where a ratio is a half,
// results lie in the middle between two steps, and must do so exactly.

static LogicalResult importQLinearAdd(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Value> step = number(node, 6);
  auto counted = [&](size_t i) -> FailureOr<Value> {
    FailureOr<Value> whole = wholeNumbers(node, i), scale = number(node, i + 1);
    if (failed(whole) || failed(scale) || failed(step))
      return failure();
    return b.mul(*whole, b.div(*scale, *step));
  };
  FailureOr<Value> lhs = counted(0), rhs = counted(3);
  if (failed(lhs) || failed(rhs))
    return failure();
  return quantizedResult(node, b.add(*lhs, *rhs), 6, 0, /*isCounted=*/true);
}

static LogicalResult importQLinearMul(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Value> lhs = wholeNumbers(node, 0), rhs = wholeNumbers(node, 3),
                   lhsScale = number(node, 1), rhsScale = number(node, 4), step = number(node, 6);
  if (failed(lhs) || failed(rhs) || failed(lhsScale) || failed(rhsScale) || failed(step))
    return failure();
  Value ratio = b.div(b.mul(*lhsScale, *rhsScale), *step);
  return quantizedResult(node, b.mul(b.mul(*lhs, *rhs), ratio), 6, 0, /*isCounted=*/true);
}

static LogicalResult importQLinearActivation(Node &node) {
  FailureOr<Value> x = real(node, 0);
  if (failed(x))
    return failure();
  std::optional<Value> y = activation(node.b, node.opType().drop_front(StringRef("QLinear").size()),
                                      *x, node.floating("alpha", 0.01));
  assert(y && "the table lists activations only");
  return quantizedResult(node, *y, 3);
}

static LogicalResult importQLinearWhere(Node &node) {
  FailureOr<Value> x = real(node, 1), y = real(node, 4);
  if (failed(x) || failed(y))
    return failure();
  return quantizedResult(node, node.b.select(node.input(0), *x, *y), 7, 1);
}

/// Inputs: scale and zero point of the result, then three per tensor.
static LogicalResult importQLinearConcat(Node &node) {
  if (node.inputCount() % 3 != 2)
    return node.error("needs a scale and a zero point of the result, and with each tensor its own");
  FailureOr<Value> first = real(node, 2);
  if (failed(first))
    return failure();
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), TensorBuilder::rankOf(*first));
  if (failed(axis))
    return failure();
  SmallVector<Value> parts{*first};
  for (size_t i = 5; i < node.inputCount(); i += 3) {
    FailureOr<Value> part = real(node, i);
    if (failed(part))
      return failure();
    parts.push_back(*part);
  }
  return quantizedResult(node, node.b.concat(parts, *axis), 0, 2);
}

//===-- rows and windows ---------------------------------------------------------------------===//

/// Below operator set 13, all dimensions from `axis` on are one. onnxruntime has a whole number of
/// steps in 1: 254 of 1/255 as f32, which is a little more than the 255th part.
static LogicalResult importQLinearSoftmax(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Value> x = real(node, 0);
  bool flattens = node.integer("opset", 0) < 13;
  int64_t rank = node.inputType(0).getRank();
  FailureOr<int64_t> axis = node.axis(node.integer("axis", flattens ? 1 : -1), rank);
  if (failed(x) || failed(axis))
    return failure();
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  Shape rows(shape);
  if (flattens) {
    rows.truncate(*axis);
    rows.push_back(llvm::product_of(shape.drop_front(*axis)));
  }
  FailureOr<Value> scale = number(node, 3);
  if (failed(scale))
    return failure();
  Value y = b.reshape(b.softmax(b.reshape(*x, rows), *axis, /*log=*/false), shape);
  Value steps = b.unary(UnaryKind::Floor, b.div(b.scalar(f32Of(node), 1.0), *scale));
  return quantizedResult(node, b.mul(y, steps), 3, 0, /*isCounted=*/true);
}

/// The mean of whole numbers over `dims`, times their scale.
static FailureOr<Value> mean(Node &node, Value whole, ArrayRef<int64_t> dims, bool keepDims) {
  TensorBuilder &b = node.b;
  FailureOr<Value> scale = number(node, 1);
  if (failed(scale))
    return failure();
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(TensorBuilder::shapeOf(whole)[dim]);
  Value sum = b.reduce(ReduceKind::Sum, b.cast(whole, b.opBuilder().getI32Type()), dims, keepDims);
  return b.mul(b.binary(BinaryKind::Div, b.cast(sum, f32Of(node)), count), *scale);
}

static LogicalResult importQLinearReduceMean(Node &node) {
  int64_t rank = node.inputType(0).getRank();
  FailureOr<SmallVector<int64_t>> dims =
      node.axes(node.integers("axes").value_or(llvm::to_vector(llvm::seq(rank))), rank);
  FailureOr<Value> whole = wholeNumbers(node, 0);
  if (failed(dims) || failed(whole))
    return failure();
  return quantizedResult(node, mean(node, *whole, *dims, node.integer("keepdims", 1) != 0), 3);
}

static LogicalResult importQLinearGlobalAveragePool(Node &node) {
  FailureOr<Value> whole = wholeNumbers(node, 0);
  int64_t rank = node.inputType(0).getRank();
  if (rank < 3)
    return node.inputError(0, "must have at least 3 dimensions");
  int64_t first = node.integer("channels_last", 0) ? 1 : 2;
  if (failed(whole))
    return failure();
  return quantizedResult(
      node, mean(node, *whole, llvm::to_vector(llvm::seq(first, first + rank - 2)), true), 3);
}

static LogicalResult importQLinearAveragePool(Node &node) {
  TensorBuilder &b = node.b;
  bool isLast = node.integer("channels_last", 0) != 0;
  FailureOr<Value> whole = wholeNumbers(node, 0), scale = number(node, 1);
  if (failed(whole) || failed(scale))
    return failure();
  FailureOr<Value> y = averagePool(node, isLast ? channelsFirst(b, *whole) : *whole);
  if (failed(y))
    return failure();
  return quantizedResult(node, b.mul(isLast ? channelsToEnd(b, *y) : *y, *scale), 3);
}

//===-- products -----------------------------------------------------------------------------===//

/// `whole` i32 times a scale or the product of two, one number or one per column, plus the bias in
/// input `bias`: floats of type `element`.
static LogicalResult scaledResult(Node &node, Value whole, Value scale, size_t bias, Type element) {
  TensorBuilder &b = node.b;
  Value y =
      b.mul(b.cast(whole, f32Of(node)),
            TensorBuilder::typeOf(scale).getNumElements() == 1 ? b.reshape(scale, {}) : scale);
  if (node.hasInput(bias))
    y = b.add(y, b.cast(node.input(bias), f32Of(node)));
  return node.result(b.cast(y, element));
}

static LogicalResult importMatMulIntegerToFloat(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Value> lhsScale = number(node, 2);
  if (failed(lhsScale))
    return failure();
  Value lhs = centered(node, 0, 4, -1), rhs = centered(node, 1, 5, node.inputType(1).getRank() - 1);
  Value scale = b.mul(b.cast(node.input(3), f32Of(node)), *lhsScale);
  return scaledResult(node, matrixProduct(node, lhs, rhs), scale, 6,
                      node.inputType(2).getElementType());
}

static LogicalResult importDynamicQuantizeMatMul(Node &node) {
  TensorBuilder &b = node.b;
  Type i32 = b.opBuilder().getI32Type();
  auto [numbers, scale, zeroPoint] = quantizeDynamically(b, node.input(0));
  Value lhs = b.sub(b.cast(numbers, i32), b.cast(zeroPoint, i32)),
        rhs = centered(node, 1, 3, node.inputType(1).getRank() - 1);
  return scaledResult(node, matrixProduct(node, lhs, rhs), b.mul(node.input(2), scale), 4,
                      f32Of(node));
}

/// A product of integers of 16 bits in 32.
static LogicalResult importMatMulInteger16(Node &node) {
  TensorBuilder &b = node.b;
  bool isUnsigned = node.inputType(0).getElementType().isUnsignedInteger() &&
                    node.inputType(1).getElementType().isUnsignedInteger();
  Type wide = isUnsigned ? IntegerType::get(b.getContext(), 32, IntegerType::Unsigned)
                         : b.opBuilder().getI32Type();
  return node.result(matrixProduct(node, b.cast(node.input(0), wide), b.cast(node.input(1), wide)));
}

/// alpha * a_scale * b_scale * (A * B + C), quantized where the scale of a result is given.
static LogicalResult importQGemm(Node &node) {
  TensorBuilder &b = node.b;
  if (node.inputType(0).getRank() != 2 || node.inputType(3).getRank() != 2)
    return node.error("needs matrices, got " + printShape(node.inputType(0).getShape()) + " and " +
                      printShape(node.inputType(3).getShape()));
  int64_t lhsDim = node.integer("transA", 0) ? 0 : 1, rhsDim = node.integer("transB", 0) ? 1 : 0;
  if (node.inputType(0).getDimSize(lhsDim) != node.inputType(3).getDimSize(rhsDim))
    return node.error("cannot multiply " + printShape(node.inputType(0).getShape()) + " by " +
                      printShape(node.inputType(3).getShape()));
  FailureOr<Value> lhsScale = number(node, 1);
  if (failed(lhsScale))
    return failure();
  Value product =
      b.dot(centered(node, 0, 2, -1), centered(node, 3, 5, 1 - rhsDim), {}, {}, {lhsDim}, {rhsDim});
  if (node.hasInput(6))
    product = b.add(product, b.broadcastTo(node.input(6), TensorBuilder::shapeOf(product)));
  Value scale = b.mul(node.input(4), *lhsScale);
  if (double alpha = node.floating("alpha", 1); alpha != 1)
    scale = b.binary(BinaryKind::Mul, scale, alpha);
  if (failed(scaledResult(node, product, scale, /*bias=*/9, f32Of(node))))
    return failure();
  return node.hasInput(7) ? quantizedResult(node, node.results()[0].tensor, 7) : success();
}

static LogicalResult importMulInteger(Node &node) {
  return node.result(node.b.mul(centered(node, 0, 1, -1), centered(node, 2, 3, -1)));
}

static LogicalResult importReduceSumInteger(Node &node) {
  FailureOr<SmallVector<int64_t>> dims = node.axes(
      node.integers("axes").value_or(SmallVector<int64_t>()), node.inputType(0).getRank());
  if (failed(dims))
    return failure();
  Type element = node.inputType(0).getElementType();
  Type wide =
      IntegerType::get(node.b.getContext(), 32,
                       element.isUnsignedInteger() ? IntegerType::Unsigned : IntegerType::Signless);
  return node.result(node.b.reduce(ReduceKind::Sum, node.b.cast(node.input(0), wide), *dims,
                                   node.integer("keepdims", 1) != 0));
}

void mlir::autopar::addContribQuantizationOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("QLinearAdd", {1}, {2, 8}, "", importQLinearAdd);
  table.add("QLinearMul", {1}, {2, 8}, "", importQLinearMul);
  table.add("QLinearSigmoid", {1}, {2, 5}, "", importQLinearActivation);
  table.add("QLinearLeakyRelu", {1}, {2, 5}, "alpha", importQLinearActivation);
  table.add("QLinearWhere", {1}, {9, 9}, "", importQLinearWhere);
  table.add("QLinearConcat", {1}, {1, -1}, "axis", importQLinearConcat);
  table.add("QLinearSoftmax", {1}, {2, 5}, "axis opset", importQLinearSoftmax);
  table.add("QLinearReduceMean", {1}, {2, 5}, "axes keepdims", importQLinearReduceMean);
  table.add("QLinearGlobalAveragePool", {1}, {2, 5}, "channels_last",
            importQLinearGlobalAveragePool);
  table.add("QLinearAveragePool", {1}, {2, 5},
            "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides",
            importQLinearAveragePool);
  table.add("MatMulIntegerToFloat", {1}, {4, 7}, "", importMatMulIntegerToFloat);
  table.add("DynamicQuantizeMatMul", {1}, {3, 5}, "", importDynamicQuantizeMatMul);
  table.add("MatMulInteger16", {1}, {2, 2}, "", importMatMulInteger16);
  table.add("QGemm", {1}, {6, 9}, "alpha transA transB", importQGemm);
  table.add("MulInteger", {1}, {3, 4}, "", importMulInteger);
  table.add("ReduceSumInteger", {1}, {1, 1}, "axes keepdims", importReduceSumInteger);
  table.inDomain("");
}
