// SPDX-License-Identifier: Apache-2.0
// Unary, binary, comparing, logical and casting operators.
#include "Node.h"
#include "TensorData.h"

using namespace mlir;
using namespace mlir::autopar;

template <UnaryKind kind>
static LogicalResult importUnary(Node &node) {
  return node.result(node.b.unary(kind, node.input(0)));
}

/// Functions that the dialect has on floats only: other types are computed in f32 where ONNX allows
/// them.
template <UnaryKind kind>
static LogicalResult importRounding(Node &node) {
  if (!TensorBuilder::isFloat(node.input(0)))
    return node.result(node.input(0));
  return node.result(node.b.unary(kind, node.input(0)));
}

/// Operator sets before 7 aligned the second operand at attribute `axis`, and only if `broadcast`
/// was set.
static Value alignLegacy(Node &node, Value rhs) {
  if (!node.integer("broadcast", 0) || !node.hasAttribute("axis"))
    return rhs;
  int64_t rank = node.inputType(0).getRank(), axis = node.integer("axis", 0),
          trailing = rank - axis - TensorBuilder::rankOf(rhs);
  if (axis < 0 || axis > rank || trailing < 0) {
    (void)node.error("axis " + Twine(axis) + " is out of range");
    return rhs;
  }
  Shape shape(TensorBuilder::shapeOf(rhs));
  shape.append(trailing, 1);
  return node.b.reshape(rhs, shape);
}

template <BinaryKind kind>
static LogicalResult importBinary(Node &node) {
  return node.result(node.b.binary(kind, node.input(0), alignLegacy(node, node.input(1))));
}

template <ComparePredicate predicate>
static LogicalResult importCompare(Node &node) {
  Value rhs = alignLegacy(node, node.input(1));
  if (TensorBuilder::elementOf(node.input(0)) != TensorBuilder::elementOf(rhs))
    return node.error("inputs differ in element type");
  return node.result(node.b.compare(predicate, node.input(0), rhs));
}

static LogicalResult importPow(Node &node) {
  TensorBuilder &b = node.b;
  Value base = node.input(0), exponent = alignLegacy(node, node.input(1));
  Type element = TensorBuilder::elementOf(base);
  if (TensorBuilder::elementOf(exponent) != element) {
    // A float exponent of an integer base is computed in floats: 2^0.5 would lose its exponent
    // otherwise.
    if (!TensorBuilder::isFloat(base) && TensorBuilder::isFloat(exponent))
      return node.result(b.cast(
          b.binary(BinaryKind::Pow, b.cast(base, TensorBuilder::elementOf(exponent)), exponent),
          element));
    exponent = b.cast(exponent, element);
  }
  // Squares are products: exact, cheap and shared with other producers' spelling.
  if (auto known = b.floatsOf(exponent);
      known && known->size() == 1 && known->front() == 2.0 &&
      TensorBuilder::rankOf(exponent) <= TensorBuilder::rankOf(base))
    return node.result(b.mul(base, base));
  return node.result(b.binary(BinaryKind::Pow, base, exponent));
}

static LogicalResult importMod(Node &node) {
  bool fmod = node.integer("fmod", 0) != 0;
  return node.result(node.b.binary(fmod ? BinaryKind::Remainder : BinaryKind::Modulo, node.input(0),
                                   node.input(1)));
}

template <BinaryKind kind>
static LogicalResult importVariadic(Node &node) {
  Value result = node.input(0);
  for (size_t i = 1; i < node.inputCount(); ++i) {
    if (!node.hasInput(i))
      return node.inputError(i, "is missing");
    result = node.b.binary(kind, result, node.input(i));
  }
  return node.result(result);
}

static LogicalResult importMean(Node &node) {
  if (failed(importVariadic<BinaryKind::Add>(node)))
    return failure();
  Value sum = node.results()[0].tensor;
  return node.result(node.b.binary(BinaryKind::Div, sum, static_cast<double>(node.inputCount())));
}

static LogicalResult importNot(Node &node) {
  return node.result(node.b.unary(UnaryKind::Not, node.input(0)));
}

/// ONNX's logical operators are of booleans; those of integers have names of their own.
static LogicalResult checkBooleans(Node &node) {
  for (size_t i = 0; i < node.inputCount(); ++i)
    if (!node.inputType(i).getElementType().isInteger(1))
      return node.inputError(i, "must hold booleans; Bitwise" + node.opType() + " takes integers");
  return success();
}

static LogicalResult importLogicalNot(Node &node) {
  return success(succeeded(checkBooleans(node)) && succeeded(importNot(node)));
}

template <BinaryKind kind>
static LogicalResult importLogical(Node &node) {
  return success(succeeded(checkBooleans(node)) && succeeded(importBinary<kind>(node)));
}

static LogicalResult importBitShift(Node &node) {
  std::string direction = node.string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    return node.error("attribute 'direction' must be LEFT or RIGHT, not '" + Twine(direction) +
                      "'");
  return node.result(
      node.b.binary(direction == "LEFT" ? BinaryKind::ShiftLeft : BinaryKind::ShiftRight,
                    node.input(0), node.input(1)));
}

static LogicalResult importWhere(Node &node) {
  if (node.inputType(1).getElementType() != node.inputType(2).getElementType())
    return node.error("inputs 1 and 2 differ in element type");
  if (!node.inputType(0).getElementType().isInteger(1))
    return node.inputError(0, "must be of booleans");
  return node.result(node.b.select(node.input(0), node.input(1), node.input(2)));
}

static LogicalResult importCast(Node &node) {
  FailureOr<Type> element = node.elementType("to", Type());
  if (failed(element))
    return failure();
  if (!*element)
    return node.error("attribute 'to' is missing");
  return node.result(node.b.cast(node.input(0), *element, !node.integer("saturate", 1)));
}

static LogicalResult importCastLike(Node &node) {
  return node.result(
      node.b.cast(node.input(0), node.inputType(1).getElementType(), !node.integer("saturate", 1)));
}

/// Integers of one width have the same bits where they are the same number or wrap to it; a boolean
/// is a byte.
static LogicalResult importBitCast(Node &node) {
  TensorBuilder &b = node.b;
  Type from = node.inputType(0).getElementType();
  FailureOr<Type> to = node.elementType("to", Type());
  if (failed(to))
    return failure();
  if (!*to)
    return node.error("attribute 'to' is missing");
  auto widthOf = [](Type element) {
    return element.isInteger(1) ? 8 : element.getIntOrFloatBitWidth();
  };
  if (widthOf(from) != widthOf(*to))
    return node.error("casts elements of " + Twine(widthOf(from)) + " bits to " +
                      Twine(widthOf(*to)));
  bool isInteger = isa<IntegerType>(from) && isa<IntegerType>(*to);
  return node.result(isInteger ? b.cast(node.input(0), *to) : b.bitcast(node.input(0), *to));
}

/// |x| = infinity, of the signs asked for.
static LogicalResult importIsInf(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0);
  bool negative = node.integer("detect_negative", 1), positive = node.integer("detect_positive", 1);
  double infinity = std::numeric_limits<double>::infinity();
  auto is = [&](double limit) {
    return b.compare(ComparePredicate::Eq, x, b.scalar(TensorBuilder::elementOf(x), limit));
  };
  if (positive && negative)
    return node.result(b.binary(BinaryKind::Or, is(infinity), is(-infinity)));
  if (positive || negative)
    return node.result(is(positive ? infinity : -infinity));
  return node.result(b.splat(TensorBuilder::shapeOf(x), b.opBuilder().getI1Type(), 0));
}

static LogicalResult importIsNaN(Node &node) {
  return node.result(node.b.compare(ComparePredicate::Ne, node.input(0), node.input(0)));
}

static LogicalResult importClip(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0);
  Type element = TensorBuilder::elementOf(x);
  Value low = node.hasInput(1)           ? node.input(1)
              : node.hasAttribute("min") ? b.scalar(element, node.floating("min", 0))
                                         : Value();
  Value high = node.hasInput(2)           ? node.input(2)
               : node.hasAttribute("max") ? b.scalar(element, node.floating("max", 0))
                                          : Value();
  auto isScalar = [](Value bound) { return TensorBuilder::typeOf(bound).getNumElements() == 1; };
  if ((low && !isScalar(low)) || (high && !isScalar(high)))
    return node.error("bounds must be scalars");
  if (low)
    x = b.maximum(x, b.reshape(low, {}));
  if (high)
    x = b.minimum(x, b.reshape(high, {}));
  return node.result(x);
}

void mlir::autopar::addElementwiseOperators(OperatorTable &table) {
  const StringRef legacy = "axis broadcast consumed_inputs", none;
  auto unary = [&](StringRef name, ImportFunction import) {
    table.add(name, {1}, {1, 1}, "consumed_inputs", import);
  };
  unary("Abs", importUnary<UnaryKind::Abs>);
  unary("Neg", importUnary<UnaryKind::Neg>);
  unary("Exp", importUnary<UnaryKind::Exp>);
  unary("Log", importUnary<UnaryKind::Log>);
  unary("Sqrt", importUnary<UnaryKind::Sqrt>);
  unary("Reciprocal", importUnary<UnaryKind::Reciprocal>);
  unary("Sin", importUnary<UnaryKind::Sin>);
  unary("Cos", importUnary<UnaryKind::Cos>);
  unary("Tan", importUnary<UnaryKind::Tan>);
  unary("Asin", importUnary<UnaryKind::Asin>);
  unary("Acos", importUnary<UnaryKind::Acos>);
  unary("Atan", importUnary<UnaryKind::Atan>);
  unary("Sinh", importUnary<UnaryKind::Sinh>);
  unary("Cosh", importUnary<UnaryKind::Cosh>);
  unary("Tanh", importUnary<UnaryKind::Tanh>);
  unary("Asinh", importUnary<UnaryKind::Asinh>);
  unary("Acosh", importUnary<UnaryKind::Acosh>);
  unary("Atanh", importUnary<UnaryKind::Atanh>);
  unary("Erf", importUnary<UnaryKind::Erf>);
  unary("Sigmoid", importUnary<UnaryKind::Sigmoid>);
  unary("Relu", importUnary<UnaryKind::Relu>);
  unary("Softplus", importUnary<UnaryKind::Softplus>);
  unary("Sign", importUnary<UnaryKind::Sign>);
  unary("Floor", importRounding<UnaryKind::Floor>);
  unary("Ceil", importRounding<UnaryKind::Ceil>);
  unary("Round", importRounding<UnaryKind::Round>);
  unary("BitwiseNot", importNot);
  unary("Not", importLogicalNot);
  unary("IsNaN", importIsNaN);
  auto binary = [&](StringRef name, ImportFunction import) {
    table.add(name, {1, 6}, {2, 2}, legacy, import);
    table.add(name, {7}, {2, 2}, none, import);
  };
  binary("Add", importBinary<BinaryKind::Add>);
  binary("Sub", importBinary<BinaryKind::Sub>);
  binary("Mul", importBinary<BinaryKind::Mul>);
  binary("Div", importBinary<BinaryKind::Div>);
  binary("Pow", importPow);
  binary("And", importLogical<BinaryKind::And>);
  binary("Or", importLogical<BinaryKind::Or>);
  binary("Xor", importLogical<BinaryKind::Xor>);
  binary("Equal", importCompare<ComparePredicate::Eq>);
  binary("Less", importCompare<ComparePredicate::Lt>);
  binary("Greater", importCompare<ComparePredicate::Gt>);
  binary("LessOrEqual", importCompare<ComparePredicate::Le>);
  binary("GreaterOrEqual", importCompare<ComparePredicate::Ge>);
  table.add("BitwiseAnd", {18}, {2, 2}, none, importBinary<BinaryKind::And>);
  table.add("BitwiseOr", {18}, {2, 2}, none, importBinary<BinaryKind::Or>);
  table.add("BitwiseXor", {18}, {2, 2}, none, importBinary<BinaryKind::Xor>);
  table.add("Mod", {10}, {2, 2}, "fmod", importMod);
  table.add("BitShift", {11}, {2, 2}, "direction", importBitShift);
  table.add("Max", {1}, {1, -1}, "consumed_inputs", importVariadic<BinaryKind::Max>);
  table.add("Min", {1}, {1, -1}, "consumed_inputs", importVariadic<BinaryKind::Min>);
  table.add("Sum", {1}, {1, -1}, "consumed_inputs", importVariadic<BinaryKind::Add>);
  table.add("Mean", {1}, {1, -1}, "consumed_inputs", importMean);
  table.add("Where", {9}, {3, 3}, none, importWhere);
  table.add("Cast", {6}, {1, 1}, "to saturate round_mode", importCast);
  table.add("BitCast", {26}, {1, 1}, "to", importBitCast);
  table.add("CastLike", {15}, {2, 2}, "saturate round_mode", importCastLike);
  table.add("IsInf", {10}, {1, 1}, "detect_negative detect_positive", importIsInf);
  table.add("Clip", {1, 10}, {1, 1}, "min max consumed_inputs", importClip);
  table.add("Clip", {11}, {1, 3}, none, importClip);
}
