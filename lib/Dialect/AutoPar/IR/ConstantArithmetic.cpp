// SPDX-License-Identifier: Apache-2.0
// The scalar meaning of unary, binary, compare, select and cast, for evaluation at compile time.
#include "ConstantTable.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/ElementTypes.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

static double evaluateUnary(UnaryKind kind, double x) {
  switch (kind) {
  case UnaryKind::Neg:
    return -x;
  case UnaryKind::Abs:
    return std::fabs(x);
  case UnaryKind::Exp:
    return std::exp(x);
  case UnaryKind::Log:
    return std::log(x);
  case UnaryKind::Sqrt:
    return std::sqrt(x);
  case UnaryKind::Rsqrt:
    return 1.0 / std::sqrt(x);
  case UnaryKind::Reciprocal:
    return 1.0 / x;
  case UnaryKind::Sin:
    return std::sin(x);
  case UnaryKind::Cos:
    return std::cos(x);
  case UnaryKind::Tan:
    return std::tan(x);
  case UnaryKind::Asin:
    return std::asin(x);
  case UnaryKind::Acos:
    return std::acos(x);
  case UnaryKind::Atan:
    return std::atan(x);
  case UnaryKind::Sinh:
    return std::sinh(x);
  case UnaryKind::Cosh:
    return std::cosh(x);
  case UnaryKind::Tanh:
    return std::tanh(x);
  case UnaryKind::Asinh:
    return std::asinh(x);
  case UnaryKind::Acosh:
    return std::acosh(x);
  case UnaryKind::Atanh:
    return std::atanh(x);
  case UnaryKind::Erf:
    return std::erf(x);
  case UnaryKind::Sigmoid:
    return 1.0 / (1.0 + std::exp(-x));
  case UnaryKind::Relu:
    return x < 0 ? 0.0 : x;
  case UnaryKind::Gelu:
    return 0.5 * x * (1.0 + std::erf(x * M_SQRT1_2));
  case UnaryKind::GeluTanh:
    return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
  case UnaryKind::Silu:
    return x / (1.0 + std::exp(-x));
  case UnaryKind::Softplus:
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  case UnaryKind::Sign:
    return std::isnan(x) ? x : (x > 0) - (x < 0);
  case UnaryKind::Floor:
    return std::floor(x);
  case UnaryKind::Ceil:
    return std::ceil(x);
  case UnaryKind::Round:
    return std::nearbyint(x);
  case UnaryKind::Not:
    return x;
  }
  return x;
}

static std::optional<int64_t> evaluateUnary(UnaryKind kind, int64_t x, bool isUnsigned,
                                            bool isBool) {
  switch (kind) {
  case UnaryKind::Neg:
    return static_cast<int64_t>(-static_cast<uint64_t>(x));
  case UnaryKind::Abs:
    return x < 0 && !isUnsigned ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
  case UnaryKind::Relu:
    return x < 0 && !isUnsigned ? 0 : x;
  case UnaryKind::Sign:
    return isUnsigned ? x != 0 : (x > 0) - (x < 0);
  case UnaryKind::Not:
    return isBool ? !x : ~x;
  default:
    return std::nullopt;
  }
}

static std::optional<double> evaluateBinary(BinaryKind kind, double a, double b) {
  switch (kind) {
  case BinaryKind::Add:
    return a + b;
  case BinaryKind::Sub:
    return a - b;
  case BinaryKind::Mul:
    return a * b;
  case BinaryKind::Div:
    return a / b;
  case BinaryKind::Pow:
    return std::pow(a, b);
  case BinaryKind::Max:
    return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
  case BinaryKind::Min:
    return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  case BinaryKind::Remainder:
    return std::fmod(a, b);
  case BinaryKind::Modulo: {
    double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  default:
    return std::nullopt;
  }
}

static int64_t integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}

static std::optional<int64_t> divide(BinaryKind kind, int64_t a, int64_t b, bool isUnsigned) {
  if (b == 0)
    return std::nullopt;
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  if (isUnsigned)
    return static_cast<int64_t>(kind == BinaryKind::Div ? ua / ub : ua % ub);
  if (b == -1) // a may be the smallest number, whose negation traps
    return kind == BinaryKind::Div ? static_cast<int64_t>(-ua) : 0;
  if (kind == BinaryKind::Div)
    return a / b;
  int64_t rest = a % b;
  return kind == BinaryKind::Modulo && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static std::optional<int64_t> evaluateBinary(BinaryKind kind, int64_t a, int64_t b, Type element) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  bool isUnsigned = element.isUnsignedInteger(), less = isUnsigned ? ua < ub : a < b;
  unsigned width = element.getIntOrFloatBitWidth();
  switch (kind) {
  case BinaryKind::Add:
    return static_cast<int64_t>(ua + ub);
  case BinaryKind::Sub:
    return static_cast<int64_t>(ua - ub);
  case BinaryKind::Mul:
    return static_cast<int64_t>(ua * ub);
  case BinaryKind::Max:
    return less ? b : a;
  case BinaryKind::Min:
    return less ? a : b;
  case BinaryKind::Pow:
    return isUnsigned && b < 0 ? std::nullopt : std::optional(integerPower(a, b));
  case BinaryKind::Div:
  case BinaryKind::Remainder:
  case BinaryKind::Modulo:
    return divide(kind, a, b, isUnsigned);
  case BinaryKind::And:
    return a & b;
  case BinaryKind::Or:
    return a | b;
  case BinaryKind::Xor:
    return a ^ b;
  case BinaryKind::ShiftLeft:
    return ub >= width ? 0 : static_cast<int64_t>(ua << ub);
  case BinaryKind::ShiftRight:
    if (ub >= width)
      return isUnsigned || a >= 0 ? 0 : -1;
    return isUnsigned ? static_cast<int64_t>(ua >> ub) : a >> ub;
  }
  return std::nullopt;
}

template <typename T>
static bool holds(ComparePredicate predicate, T a, T b) {
  switch (predicate) {
  case ComparePredicate::Eq:
    return a == b;
  case ComparePredicate::Ne:
    return a != b;
  case ComparePredicate::Lt:
    return a < b;
  case ComparePredicate::Le:
    return a <= b;
  case ComparePredicate::Gt:
    return a > b;
  case ComparePredicate::Ge:
    return a >= b;
  }
  return false;
}

/// Rounds a float to what the element type can hold, so that a chain computes as at run time.
static double roundTo(double value, Type element) {
  if (element.isF64())
    return value;
  if (element.isF32())
    return static_cast<float>(value);
  APFloat rounded(value);
  bool lossy;
  rounded.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &lossy);
  rounded.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return rounded.convertToDouble();
}

static std::optional<ConstantTable> evaluateCast(CastOp op, const ConstantTable &input,
                                                 ConstantTable result, size_t count) {
  Type element = result.type.getElementType();
  bool toBool = element.isInteger(1);
  double most = std::numeric_limits<double>::infinity();
  if (isByteFloat(element) && !op.getOverflows())
    most = APFloat::getLargest(cast<FloatType>(element).getFloatSemantics()).convertToDouble();
  for (size_t i = 0; i < count; ++i) {
    if (result.isFloat()) {
      double value = input.isFloat() ? input.number(i)
                     : input.isUnsigned()
                         ? static_cast<double>(static_cast<uint64_t>(input.integer(i)))
                         : static_cast<double>(input.integer(i));
      if (std::fabs(value) > most)
        value = std::copysign(most, value);
      result.floats[i] = roundTo(value, element);
    } else if (input.isFloat()) {
      double value = input.number(i);
      if (toBool) {
        result.integers[i] = value != 0;
        continue;
      }
      if (!(std::fabs(value) < 9.2e18)) // NaN and what no integer holds: left to run time
        return std::nullopt;
      result.integers[i] = wrapInteger(static_cast<int64_t>(value), element);
    } else {
      result.integers[i] = toBool ? input.integer(i) != 0 : wrapInteger(input.integer(i), element);
    }
  }
  return result;
}

static std::optional<ConstantTable> evaluateCompare(ComparePredicate predicate,
                                                    const ConstantTable &a, const ConstantTable &b,
                                                    ConstantTable result, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (a.isFloat())
      result.integers[i] = holds(predicate, a.number(i), b.number(i));
    else if (a.isUnsigned())
      result.integers[i] = holds<uint64_t>(predicate, a.integer(i), b.integer(i));
    else
      result.integers[i] = holds(predicate, a.integer(i), b.integer(i));
  }
  return result;
}

static std::optional<ConstantTable> evaluateArithmetic(Operation *op,
                                                       ArrayRef<ConstantTable> operands,
                                                       ConstantTable result, size_t count) {
  Type element = result.type.getElementType();
  auto unary = dyn_cast<UnaryOp>(op);
  auto binary = dyn_cast<BinaryOp>(op);
  for (size_t i = 0; i < count; ++i) {
    if (result.isFloat()) {
      std::optional<double> value =
          unary ? evaluateUnary(unary.getKind(), operands[0].number(i))
                : evaluateBinary(binary.getKind(), operands[0].number(i), operands[1].number(i));
      if (!value)
        return std::nullopt;
      result.floats[i] = roundTo(*value, element);
    } else {
      std::optional<int64_t> value =
          unary ? evaluateUnary(unary.getKind(), operands[0].integer(i),
                                element.isUnsignedInteger(), element.isInteger(1))
                : evaluateBinary(binary.getKind(), operands[0].integer(i), operands[1].integer(i),
                                 element);
      if (!value)
        return std::nullopt;
      result.integers[i] = wrapInteger(*value, element);
    }
  }
  return result;
}

std::optional<ConstantTable> mlir::autopar::evaluateElementwise(Operation *op,
                                                                ArrayRef<ConstantTable> operands,
                                                                RankedTensorType type,
                                                                size_t count) {
  ConstantTable result = ConstantTable::make(type, count);
  if (isa<UnaryOp, BinaryOp>(op))
    return evaluateArithmetic(op, operands, std::move(result), count);
  if (auto compare = dyn_cast<CompareOp>(op))
    return evaluateCompare(compare.getPredicate(), operands[0], operands[1], std::move(result),
                           count);
  if (auto cast = dyn_cast<CastOp>(op))
    return evaluateCast(cast, operands[0], std::move(result), count);
  if (isa<SelectOp>(op)) {
    for (size_t i = 0; i < count; ++i)
      result.copyElement(i, operands[0].integer(i) ? operands[1] : operands[2], i);
    return result;
  }
  return std::nullopt;
}
