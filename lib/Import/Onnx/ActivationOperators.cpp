// SPDX-License-Identifier: Apache-2.0
// Activation functions, by name for recurrent operators and as operators of their own.
#include "Activations.h"
#include "NumberArithmetic.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

static Value positive(TensorBuilder &b, Value x) {
  return b.compare(ComparePredicate::Gt, x, b.scalar(TensorBuilder::elementOf(x), 0.0));
}

/// scale * (x > 0 ? x : alpha * (exp(x / width) - 1))
static Value exponentialUnit(TensorBuilder &b, Value x, double alpha, double width = 1,
                             double scale = 1) {
  Value inner = width == 1 ? x : b.binary(BinaryKind::Div, x, width);
  Value negative =
      scaled(b, b.binary(BinaryKind::Sub, b.unary(UnaryKind::Exp, inner), 1.0), alpha, 0);
  return scaled(b, b.select(positive(b, x), x, negative), scale, 0);
}

static Value leaky(TensorBuilder &b, Value x, double alpha) {
  return b.select(positive(b, x), x, b.binary(BinaryKind::Mul, x, alpha));
}

static Value softsign(TensorBuilder &b, Value x) {
  return b.div(x, b.binary(BinaryKind::Add, b.unary(UnaryKind::Abs, x), 1.0));
}

Value mlir::autopar::swish(TensorBuilder &b, Value x, double alpha) {
  return alpha == 1 ? b.unary(UnaryKind::Silu, x)
                    : b.mul(x, b.unary(UnaryKind::Sigmoid, b.binary(BinaryKind::Mul, x, alpha)));
}

std::optional<Value> mlir::autopar::activation(TensorBuilder &b, StringRef name, Value x,
                                               std::optional<double> alpha,
                                               std::optional<double> beta) {
  std::string lower = name.lower();
  if (lower == "relu")
    return b.unary(UnaryKind::Relu, x);
  if (lower == "tanh")
    return b.unary(UnaryKind::Tanh, x);
  if (lower == "sigmoid")
    return b.unary(UnaryKind::Sigmoid, x);
  if (lower == "softplus")
    return b.unary(UnaryKind::Softplus, x);
  if (lower == "softsign")
    return softsign(b, x);
  if (lower == "affine")
    return scaled(b, x, alpha.value_or(1), beta.value_or(0));
  if (lower == "leakyrelu")
    return leaky(b, x, alpha.value_or(0.01));
  if (lower == "thresholdedrelu")
    return b.select(b.compare(ComparePredicate::Gt, x,
                              b.scalar(TensorBuilder::elementOf(x), alpha.value_or(1))),
                    x, b.splatLike(x, 0));
  if (lower == "scaledtanh")
    return scaled(b, b.unary(UnaryKind::Tanh, scaled(b, x, beta.value_or(1), 0)), alpha.value_or(1),
                  0);
  if (lower == "hardsigmoid")
    return clamp(b, scaled(b, x, alpha.value_or(0.2), beta.value_or(0.5)), 0, 1);
  if (lower == "elu")
    return exponentialUnit(b, x, alpha.value_or(1));
  return std::nullopt;
}

static LogicalResult importNamed(Node &node) {
  auto given = [&](StringRef name) {
    return node.hasAttribute(name) ? std::optional(node.floating(name, 0)) : std::nullopt;
  };
  std::optional<Value> y =
      activation(node.b, node.opType(), node.input(0), given("alpha"), given("beta"));
  assert(y && "the table lists activations only");
  return node.result(*y);
}

static LogicalResult importSelu(Node &node) {
  bool isRounded = node.version < 6;
  double alpha = node.floating("alpha", isRounded ? 1.6732 : 1.67326319217681884765625),
         gamma = node.floating("gamma", isRounded ? 1.0507 : 1.05070102214813232421875);
  return node.result(exponentialUnit(node.b, node.input(0), alpha, 1, gamma));
}

/// max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
static LogicalResult importCelu(Node &node) {
  double alpha = node.floating("alpha", 1);
  if (alpha == 0)
    return node.error("attribute 'alpha' must not be 0");
  return node.result(exponentialUnit(node.b, node.input(0), alpha, alpha));
}

static LogicalResult importHardSwish(Node &node) {
  TensorBuilder &b = node.b;
  return node.result(b.mul(node.input(0), clamp(b, scaled(b, node.input(0), 1.0 / 6, 0.5), 0, 1)));
}

static LogicalResult importMish(Node &node) {
  TensorBuilder &b = node.b;
  return node.result(
      b.mul(node.input(0), b.unary(UnaryKind::Tanh, b.unary(UnaryKind::Softplus, node.input(0)))));
}

static LogicalResult importGelu(Node &node) {
  std::string approximate = node.string("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return node.error("attribute 'approximate' must be none or tanh, not '" + Twine(approximate) +
                      "'");
  return node.result(
      node.b.unary(approximate == "tanh" ? UnaryKind::GeluTanh : UnaryKind::Gelu, node.input(0)));
}

static LogicalResult importSwish(Node &node) {
  return node.result(swish(node.b, node.input(0), node.floating("alpha", 1)));
}

static LogicalResult importPRelu(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0), slope = node.input(1);
  // Operator sets before 7 gave one slope per channel.
  if (node.version < 7 && TensorBuilder::rankOf(slope) == 1 && TensorBuilder::rankOf(x) > 1 &&
      TensorBuilder::shapeOf(slope)[0] == TensorBuilder::shapeOf(x)[1])
    slope = b.broadcast(slope, TensorBuilder::shapeOf(x), {1});
  Value negative = b.compare(ComparePredicate::Lt, x, b.scalar(TensorBuilder::elementOf(x), 0.0));
  return node.result(
      b.select(negative, b.mul(x, b.broadcastTo(slope, TensorBuilder::shapeOf(x))), x));
}

/// x < -lambd: x + bias; x > lambd: x - bias; else 0.
static LogicalResult importShrink(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0);
  Type element = TensorBuilder::elementOf(x);
  double bias = node.floating("bias", 0), lambd = node.floating("lambd", 0.5);
  Value wide = isa<FloatType>(element) ? x : b.cast(x, b.opBuilder().getF32Type());
  Type wideElement = TensorBuilder::elementOf(wide);
  Value low = b.compare(ComparePredicate::Lt, wide, b.scalar(wideElement, -lambd));
  Value high = b.compare(ComparePredicate::Gt, wide, b.scalar(wideElement, lambd));
  Value rest = b.select(high, b.binary(BinaryKind::Sub, wide, bias), b.splatLike(wide, 0));
  return node.result(b.cast(b.select(low, b.binary(BinaryKind::Add, wide, bias), rest), element));
}

static LogicalResult importDropout(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0);
  Type boolean = b.opBuilder().getI1Type();
  // Operator sets from 7 to 11 knew inference only.
  bool training = node.version < 7 && !node.integer("is_test", 0);
  double ratio = node.hasAttribute("ratio") ? node.floating("ratio", 0.5) : 0.5;
  if (node.hasInput(2)) {
    FailureOr<SmallVector<int64_t>> mode = node.constantIntegers(2);
    if (failed(mode) || mode->size() != 1)
      return failed(mode) ? failure() : node.inputError(2, "must be a scalar");
    training = mode->front() != 0;
  }
  training = node.trains(training);
  if (training && node.hasInput(1)) {
    FailureOr<SmallVector<double>> given = node.constantFloats(1);
    if (failed(given) || given->size() != 1)
      return failed(given) ? failure() : node.inputError(1, "must be a scalar");
    ratio = given->front();
  }
  if (!training || ratio == 0) {
    node.setOutput(0, x);
    if (node.wants(1)) // older versions gave the mask in the input's type
      node.setOutput(1, b.splat(TensorBuilder::shapeOf(x),
                                node.version < 10 ? TensorBuilder::elementOf(x) : boolean, 1));
    return success();
  }
  if (!(ratio > 0 && ratio < 1))
    return node.error("ratio must be at least 0 and below 1");
  Value draws = b.random(RandomKind::Uniform, TensorBuilder::shapeOf(x), b.opBuilder().getF32Type(),
                         node.integer("seed", 0), node.randomStream());
  Value kept =
      b.compare(ComparePredicate::Ge, draws, b.scalar(TensorBuilder::elementOf(draws), ratio));
  // An evaluation keeps everything, as it is.
  Type element = TensorBuilder::elementOf(x);
  kept = node.unlessEvaluated(kept, b.splatLike(kept, 1));
  Value scale = node.unlessEvaluated(b.scalar(element, 1 / (1 - ratio)), b.scalar(element, 1.0));
  Value scaled = b.mul(x, b.broadcast(scale, TensorBuilder::shapeOf(x), {}));
  node.setOutput(0, b.select(kept, scaled, b.splatLike(x, 0)));
  node.setOutput(1, node.version < 10 ? b.cast(kept, element) : kept);
  return success();
}

void mlir::autopar::addActivationOperators(OperatorTable &table) {
  for (StringRef name : {"Elu", "LeakyRelu", "ThresholdedRelu"})
    table.add(name, {1}, {1, 1}, "alpha consumed_inputs", importNamed);
  table.add("HardSigmoid", {1}, {1, 1}, "alpha beta consumed_inputs", importNamed);
  table.add("Softsign", {1}, {1, 1}, "", importNamed);
  table.add("Selu", {1}, {1, 1}, "alpha gamma consumed_inputs", importSelu);
  table.add("Celu", {12}, {1, 1}, "alpha", importCelu);
  table.add("HardSwish", {14}, {1, 1}, "", importHardSwish);
  table.add("Mish", {18}, {1, 1}, "", importMish);
  table.add("Gelu", {20}, {1, 1}, "approximate", importGelu);
  table.add("Swish", {24}, {1, 1}, "alpha", importSwish);
  table.add("PRelu", {1}, {2, 2}, "consumed_inputs", importPRelu);
  table.add("Shrink", {9}, {1, 1}, "bias lambd", importShrink);
  table.add("Dropout", {1, 11}, {1, 1}, "consumed_inputs is_test ratio", importDropout);
  table.add("Dropout", {12}, {1, 3}, "seed", importDropout);
}
