// SPDX-License-Identifier: Apache-2.0
// Gradients of elementwise operations: the cotangent times the derivative at the operands. Steps
// (sign, floor, ...) have derivative zero. Where two operands are equally large, max and min give
// each half.
#include "GradientModels.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr double inverseSqrtPi = 0.56418958354775628695;

/// g / sqrt(x * x + plus).
Value overRoot(FormulaBuilder &b, Value g, Value square, double plus) {
  return b.mul(g, b.unary(UnaryKind::Rsqrt, b.shift(square, plus)));
}

/// Phi(x) + x phi(x) with the standard normal distribution and density.
Value geluSlope(FormulaBuilder &b, Value x) {
  Value erf = b.unary(UnaryKind::Erf, b.scale(x, std::sqrt(0.5)));
  Value distribution = b.shift(b.scale(erf, 0.5), 0.5);
  Value density =
      b.scale(b.unary(UnaryKind::Exp, b.scale(b.square(x), -0.5)), inverseSqrtPi * std::sqrt(0.5));
  return b.add(distribution, b.mul(x, density));
}

/// With t = tanh(c (x + a x^3)): (1 + t) / 2 + x (1 - t^2) c (1 + 3 a x^2) / 2, multiplied in this
/// order: where x^3 overflows, 1 - t^2 is 0.
Value geluTanhSlope(FormulaBuilder &b, Value x) {
  const double a = 0.044715, c = std::sqrt(2.0) * inverseSqrtPi;
  Value square = b.square(x);
  Value inner = b.scale(b.mul(x, b.shift(b.scale(square, a), 1)), c);
  Value t = b.unary(UnaryKind::Tanh, inner);
  Value slope = b.scale(b.shift(b.scale(square, 3 * a), 1), c / 2);
  Value rest = b.mul(b.mul(x, b.shift(b.scale(b.square(t), -1), 1)), slope);
  return b.add(b.shift(b.scale(t, 0.5), 0.5), rest);
}

/// s (1 + x (1 - s)) with s = sigmoid(x).
Value siluSlope(FormulaBuilder &b, Value x) {
  Value s = b.unary(UnaryKind::Sigmoid, x);
  return b.mul(s, b.shift(b.mul(x, b.shift(b.scale(s, -1), 1)), 1));
}

struct UnaryGradient : GradientOpInterface::ExternalModel<UnaryGradient, UnaryOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    FormulaBuilder b(builder, op);
    Value x = op->getOperand(0), y = op->getResult(0), g = cotangents[0];
    switch (cast<UnaryOp>(op).getKind()) {
    case UnaryKind::Neg:
      return b.unary(UnaryKind::Neg, g);
    case UnaryKind::Abs:
      return b.mul(g, b.unary(UnaryKind::Sign, x));
    case UnaryKind::Exp:
      return b.mul(g, y);
    case UnaryKind::Log:
      return b.div(g, x);
    case UnaryKind::Sqrt:
      return b.div(b.scale(g, 0.5), y);
    case UnaryKind::Rsqrt:
      return b.mul(b.scale(g, -0.5), b.mul(y, b.square(y)));
    case UnaryKind::Reciprocal:
      return b.unary(UnaryKind::Neg, b.mul(g, b.square(y)));
    case UnaryKind::Sin:
      return b.mul(g, b.unary(UnaryKind::Cos, x));
    case UnaryKind::Cos:
      return b.unary(UnaryKind::Neg, b.mul(g, b.unary(UnaryKind::Sin, x)));
    case UnaryKind::Tan:
      return b.mul(g, b.shift(b.square(y), 1));
    case UnaryKind::Asin:
      return overRoot(b, g, b.unary(UnaryKind::Neg, b.square(x)), 1);
    case UnaryKind::Acos:
      return b.unary(UnaryKind::Neg, overRoot(b, g, b.unary(UnaryKind::Neg, b.square(x)), 1));
    case UnaryKind::Atan:
      return b.div(g, b.shift(b.square(x), 1));
    case UnaryKind::Sinh:
      return b.mul(g, b.unary(UnaryKind::Cosh, x));
    case UnaryKind::Cosh:
      return b.mul(g, b.unary(UnaryKind::Sinh, x));
    case UnaryKind::Tanh:
      return b.mul(g, b.shift(b.scale(b.square(y), -1), 1));
    case UnaryKind::Asinh:
      return overRoot(b, g, b.square(x), 1);
    case UnaryKind::Acosh:
      return overRoot(b, g, b.square(x), -1);
    case UnaryKind::Atanh:
      return b.div(g, b.shift(b.scale(b.square(x), -1), 1));
    case UnaryKind::Erf:
      return b.mul(g, b.scale(b.unary(UnaryKind::Exp, b.unary(UnaryKind::Neg, b.square(x))),
                              2 * inverseSqrtPi));
    case UnaryKind::Sigmoid:
      return b.mul(g, b.mul(y, b.shift(b.scale(y, -1), 1)));
    case UnaryKind::Relu:
      return Value(UnaryGradOp::create(builder, op->getLoc(), y.getType(), UnaryKind::Relu, y, g));
    case UnaryKind::Gelu:
    case UnaryKind::GeluTanh:
    case UnaryKind::Silu:
      return Value(UnaryGradOp::create(builder, op->getLoc(), x.getType(),
                                       cast<UnaryOp>(op).getKind(), x, g));
    case UnaryKind::Softplus:
      return b.mul(g, b.unary(UnaryKind::Sigmoid, x));
    case UnaryKind::Sign:
    case UnaryKind::Floor:
    case UnaryKind::Ceil:
    case UnaryKind::Round:
      return Value();
    case UnaryKind::Not:
      return noGradient(op, "it works on bits");
    }
    llvm_unreachable("unknown unary kind");
  }
};

struct UnaryGradExpansion : ExpansionOpInterface::ExternalModel<UnaryGradExpansion, UnaryGradOp> {
  Value expand(Operation *op, OpBuilder &builder) const {
    auto gradient = cast<UnaryGradOp>(op);
    FormulaBuilder b(builder, op);
    Value at = gradient.getInput(), g = gradient.getGradient();
    if (gradient.getKind() == UnaryKind::Relu)
      return b.where(b.compare(ComparePredicate::Gt, at, b.splatLike(at, 0)), g);
    return b.mul(g, slope(b, gradient.getKind(), at));
  }
  static Value slope(FormulaBuilder &b, UnaryKind kind, Value x) {
    if (kind == UnaryKind::Gelu)
      return geluSlope(b, x);
    return kind == UnaryKind::GeluTanh ? geluTanhSlope(b, x) : siluSlope(b, x);
  }
};

/// a^b by a: b a^(b-1), and 0 where b is 0.
Value powByBase(FormulaBuilder &b, Value base, Value exponent, Value g) {
  Value slope = b.mul(exponent, b.binary(BinaryKind::Pow, base, b.shift(exponent, -1)));
  Value isFlat = b.compare(ComparePredicate::Eq, exponent, b.splatLike(exponent, 0));
  return b.select(isFlat, b.splatLike(g, 0), b.mul(g, slope));
}

/// a^b by b: a^b log a, and 0 where a is 0.
Value powByExponent(FormulaBuilder &b, Value base, Value power, Value g) {
  Value isFlat = b.compare(ComparePredicate::Eq, base, b.splatLike(base, 0));
  return b.select(isFlat, b.splatLike(g, 0), b.mul(g, b.mul(power, b.unary(UnaryKind::Log, base))));
}

/// -g times the whole number that the division left out.
Value byDivisor(FormulaBuilder &b, Value dividend, Value divisor, Value g, bool floor) {
  Value quotient = b.div(dividend, divisor);
  Value whole = floor ? b.unary(UnaryKind::Floor, quotient)
                      : b.mul(b.unary(UnaryKind::Sign, quotient),
                              b.unary(UnaryKind::Floor, b.unary(UnaryKind::Abs, quotient)));
  return b.unary(UnaryKind::Neg, b.mul(g, whole));
}

struct BinaryGradient : GradientOpInterface::ExternalModel<BinaryGradient, BinaryOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    FormulaBuilder b(builder, op);
    Value lhs = op->getOperand(0), rhs = op->getOperand(1), y = op->getResult(0), g = cotangents[0];
    bool first = operand == 0;
    BinaryKind kind = cast<BinaryOp>(op).getKind();
    switch (kind) {
    case BinaryKind::Add:
      return g;
    case BinaryKind::Sub:
      return first ? g : b.unary(UnaryKind::Neg, g);
    case BinaryKind::Mul:
      return b.mul(g, first ? rhs : lhs);
    case BinaryKind::Div:
      return first ? b.div(g, rhs) : b.unary(UnaryKind::Neg, b.div(b.mul(g, y), rhs));
    case BinaryKind::Pow:
      return first ? powByBase(b, lhs, rhs, g) : powByExponent(b, lhs, y, g);
    case BinaryKind::Max:
    case BinaryKind::Min: {
      Value own = first ? lhs : rhs, other = first ? rhs : lhs;
      bool max = kind == BinaryKind::Max;
      Value wins = b.compare(max ? ComparePredicate::Gt : ComparePredicate::Lt, own, other);
      Value ties = b.compare(ComparePredicate::Eq, own, other);
      return b.select(wins, g, b.where(ties, b.scale(g, 0.5)));
    }
    case BinaryKind::Remainder:
    case BinaryKind::Modulo:
      return first ? g : byDivisor(b, lhs, rhs, g, kind == BinaryKind::Modulo);
    case BinaryKind::And:
    case BinaryKind::Or:
    case BinaryKind::Xor:
    case BinaryKind::ShiftLeft:
    case BinaryKind::ShiftRight:
      return noGradient(op, "it works on bits");
    }
    llvm_unreachable("unknown binary kind");
  }
};

struct SelectGradient : GradientOpInterface::ExternalModel<SelectGradient, SelectOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    FormulaBuilder b(builder, op);
    Value g = cotangents[0], zero = b.splatLike(g, 0);
    return operand == 1 ? b.select(op->getOperand(0), g, zero)
                        : b.select(op->getOperand(0), zero, g);
  }
};

struct CastGradient : GradientOpInterface::ExternalModel<CastGradient, CastOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    FormulaBuilder b(builder, op);
    return b.cast(cotangents[0], b.typeOf(op->getOperand(0)).getElementType());
  }
};

} // namespace

void mlir::autopar::attachElementwiseGradients(MLIRContext &context) {
  UnaryOp::attachInterface<UnaryGradient>(context);
  UnaryGradOp::attachInterface<UnaryGradExpansion>(context);
  BinaryOp::attachInterface<BinaryGradient>(context);
  SelectOp::attachInterface<SelectGradient>(context);
  CastOp::attachInterface<CastGradient>(context);
}
