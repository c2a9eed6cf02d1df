// SPDX-License-Identifier: Apache-2.0
// Operators that make tensors: constants, ranges, random draws, windows of signal processing.
#include "Node.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

static LogicalResult importConstant(Node &node) {
  TensorBuilder &b = node.b;
  if (node.hasAttribute("value")) {
    FailureOr<Value> value = node.tensor("value");
    return failed(value) ? failure() : node.result(*value);
  }
  Type f32 = b.opBuilder().getF32Type();
  if (node.hasAttribute("value_float"))
    return node.result(b.scalar(f32, node.floating("value_float", 0)));
  if (node.hasAttribute("value_int"))
    return node.result(b.scalar(b.opBuilder().getI64Type(), node.integer("value_int", 0)));
  if (auto values = node.integers("value_ints"))
    return node.result(b.integers(*values));
  if (auto values = node.floats("value_floats"))
    return node.result(b.floats(*values, {static_cast<int64_t>(values->size())}, f32));
  return node.error("has no value of a supported kind (strings and sparse tensors are none)");
}

/// The shape in a constant input, checked.
static FailureOr<Shape> shapeInput(Node &node, size_t i) {
  FailureOr<SmallVector<int64_t>> shape = node.constantIntegers(i);
  if (failed(shape))
    return failure();
  for (int64_t extent : *shape)
    if (extent < 0)
      return node.inputError(i, "has a negative extent");
  return *shape;
}

static LogicalResult importConstantOfShape(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Shape> shape = shapeInput(node, 0);
  if (failed(shape))
    return failure();
  Value value = b.scalar(b.opBuilder().getF32Type(), 0.0);
  if (node.hasAttribute("value")) {
    FailureOr<Value> given = node.tensor("value");
    if (failed(given))
      return failure();
    if (TensorBuilder::typeOf(*given).getNumElements() != 1)
      return node.error("attribute 'value' must hold one element");
    value = b.reshape(*given, {});
  }
  return node.result(b.broadcast(value, *shape, {}));
}

static LogicalResult importRange(Node &node) {
  TensorBuilder &b = node.b;
  Type element = node.inputType(0).getElementType();
  constexpr double mostElements = 1e12;
  double start, step, count;
  bool hasDelta = node.hasInput(2); // which com.microsoft may leave out
  if (isa<FloatType>(element)) {
    FailureOr<SmallVector<double>> first = node.constantFloats(0), limit = node.constantFloats(1),
                                   delta =
                                       hasDelta ? node.constantFloats(2) : SmallVector<double>{1.0};
    if (failed(first) || failed(limit) || failed(delta))
      return failure();
    if (first->size() != 1 || limit->size() != 1 || delta->size() != 1 || delta->front() == 0)
      return node.error("start, limit and delta must be scalars, delta not zero");
    start = first->front(), step = delta->front();
    count = std::ceil((limit->front() - start) / step);
  } else {
    FailureOr<SmallVector<int64_t>> first = node.constantIntegers(0),
                                    limit = node.constantIntegers(1),
                                    delta = hasDelta ? node.constantIntegers(2)
                                                     : SmallVector<int64_t>{1};
    if (failed(first) || failed(limit) || failed(delta))
      return failure();
    if (first->size() != 1 || limit->size() != 1 || delta->size() != 1 || delta->front() == 0)
      return node.error("start, limit and delta must be scalars, delta not zero");
    start = static_cast<double>(first->front()), step = static_cast<double>(delta->front());
    count = std::ceil((static_cast<double>(limit->front()) - start) / step);
  }
  if (!(count <= mostElements))
    return node.error("has too many elements");
  Value steps = b.iota({static_cast<int64_t>(std::max(count, 0.0))}, element, 0);
  if (step != 1)
    steps = b.mul(steps, b.reshape(node.input(2), {}));
  if (start != 0)
    steps = b.add(steps, b.reshape(node.input(0), {}));
  return node.result(steps);
}

static LogicalResult importEyeLike(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Type> element = node.elementType("dtype", node.inputType(0).getElementType());
  if (failed(element) || node.inputType(0).getRank() != 2)
    return failed(element) ? failure() : node.inputError(0, "must be of rank 2");
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  Type i64 = b.opBuilder().getI64Type();
  Value row =
      b.binary(BinaryKind::Add, b.iota(shape, i64, 0), static_cast<double>(node.integer("k", 0)));
  return node.result(b.cast(b.compare(ComparePredicate::Eq, row, b.iota(shape, i64, 1)), *element));
}

//===-- random -------------------------------------------------------------------------------===//

static int64_t seedOf(Node &node) {
  // The attribute is a float; its bits make the key.
  auto seed = static_cast<float>(node.floating("seed", 0));
  uint32_t bits;
  std::memcpy(&bits, &seed, sizeof(bits));
  return bits;
}

/// Draws of f32, the type that every target generates.
static Value draw(Node &node, RandomKind kind, ArrayRef<int64_t> shape) {
  return node.b.random(kind, shape, node.b.opBuilder().getF32Type(), seedOf(node),
                       node.randomStream());
}

static LogicalResult finishRandom(Node &node, bool normal, ArrayRef<int64_t> shape, Type element) {
  TensorBuilder &b = node.b;
  if (!isa<FloatType>(element))
    return node.error("draws floats only");
  Value drawn = draw(node, normal ? RandomKind::Normal : RandomKind::Uniform, shape);
  double offset = normal ? node.floating("mean", 0) : node.floating("low", 0);
  double scale = normal ? node.floating("scale", 1) : node.floating("high", 1) - offset;
  if (scale != 1)
    drawn = b.binary(BinaryKind::Mul, drawn, scale);
  if (offset != 0)
    drawn = b.binary(BinaryKind::Add, drawn, offset);
  return node.result(b.cast(drawn, element));
}

template <bool normal>
static LogicalResult importRandom(Node &node) {
  FailureOr<Type> element = node.elementType("dtype", node.b.opBuilder().getF32Type());
  std::optional<SmallVector<int64_t>> shape = node.integers("shape");
  if (failed(element) || !shape)
    return failed(element) ? failure() : node.error("attribute 'shape' is missing");
  return finishRandom(node, normal, *shape, *element);
}

template <bool normal>
static LogicalResult importRandomLike(Node &node) {
  FailureOr<Type> element = node.elementType("dtype", node.inputType(0).getElementType());
  return failed(element) ? failure()
                         : finishRandom(node, normal, node.inputType(0).getShape(), *element);
}

static LogicalResult importBernoulli(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Type> element = node.elementType("dtype", node.inputType(0).getElementType());
  if (failed(element))
    return failure();
  Value drawn = draw(node, RandomKind::Uniform, node.inputType(0).getShape());
  Value chance = b.cast(node.input(0), b.opBuilder().getF32Type());
  return node.result(b.cast(b.compare(ComparePredicate::Lt, drawn, chance), *element));
}

/// Draws from unnormalized log-probabilities: the largest of x + Gumbel noise, -log(-log(u)).
static LogicalResult importMultinomial(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Type> element = node.elementType("dtype", b.opBuilder().getI32Type());
  if (failed(element) || node.inputType(0).getRank() != 2)
    return failed(element) ? failure() : node.inputError(0, "must be of rank 2");
  int64_t batch = node.inputType(0).getDimSize(0), classes = node.inputType(0).getDimSize(1),
          samples = node.integer("sample_size", 1);
  if (samples < 1 || classes < 1)
    return node.error("needs at least one sample and one class");
  Value uniform = draw(node, RandomKind::Uniform, {batch, samples, classes});
  // 1 - u lies in (0, 1].
  Value noise =
      b.unary(UnaryKind::Log, b.sub(b.scalar(TensorBuilder::elementOf(uniform), 1.0), uniform));
  noise = b.unary(UnaryKind::Neg, b.unary(UnaryKind::Log, b.unary(UnaryKind::Neg, noise)));
  Value logits = b.unsqueeze(b.cast(node.input(0), b.opBuilder().getF32Type()), {1});
  return node.result(
      b.cast(b.argReduce(ReduceKind::Max, b.add(logits, noise), 2, false), *element));
}

//===-- windows ------------------------------------------------------------------------------===//

/// A cosine sum: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
static LogicalResult importWindow(Node &node, double a0, double a1, double a2) {
  FailureOr<SmallVector<int64_t>> size = node.constantIntegers(0);
  FailureOr<Type> element = node.elementType("output_datatype", node.b.opBuilder().getF32Type());
  constexpr int64_t mostSamples = 1 << 20;
  if (failed(size) || failed(element))
    return failure();
  if (size->size() != 1 || size->front() < 0 || size->front() > mostSamples ||
      !isa<FloatType>(*element))
    return node.error("size must be one number, from 0 to " + Twine(mostSamples) + ", of floats");
  int64_t count = size->front();
  double period = static_cast<double>(node.integer("periodic", 1) ? count : count - 1);
  std::vector<double> values;
  for (int64_t n = 0; n < count; ++n) {
    double angle = period > 0 ? 2 * M_PI * static_cast<double>(n) / period : 0;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return node.result(node.b.floats(values, {count}, *element));
}

static LogicalResult importHannWindow(Node &node) { return importWindow(node, 0.5, 0.5, 0); }
static LogicalResult importHammingWindow(Node &node) {
  return importWindow(node, 25.0 / 46.0, 21.0 / 46.0, 0);
}
static LogicalResult importBlackmanWindow(Node &node) {
  return importWindow(node, 0.42, 0.5, 0.08);
}

void mlir::autopar::addConstantOperators(OperatorTable &table) {
  table.add(
      "Constant", {1}, {0, 0},
      "value value_float value_floats value_int value_ints value_string value_strings sparse_value",
      importConstant);
  table.add("ConstantOfShape", {9}, {1, 1}, "value", importConstantOfShape);
  table.add("Range", {11}, {3, 3}, "stash_type", importRange);
  table.inDomain("com.microsoft");
  table.add("Range", {1}, {2, 3}, "", importRange);
  table.inDomain("");
  table.add("EyeLike", {9}, {1, 1}, "dtype k", importEyeLike);
  table.add("RandomNormal", {1}, {0, 0}, "dtype mean scale seed shape", importRandom<true>);
  table.add("RandomUniform", {1}, {0, 0}, "dtype low high seed shape", importRandom<false>);
  table.add("RandomNormalLike", {1}, {1, 1}, "dtype mean scale seed", importRandomLike<true>);
  table.add("RandomUniformLike", {1}, {1, 1}, "dtype low high seed", importRandomLike<false>);
  table.add("Bernoulli", {15}, {1, 1}, "dtype seed", importBernoulli);
  table.add("Multinomial", {7}, {1, 1}, "dtype sample_size seed", importMultinomial);
  table.add("HannWindow", {17}, {1, 1}, "output_datatype periodic", importHannWindow);
  table.add("HammingWindow", {17}, {1, 1}, "output_datatype periodic", importHammingWindow);
  table.add("BlackmanWindow", {17}, {1, 1}, "output_datatype periodic", importBlackmanWindow);
}
