// SPDX-License-Identifier: Apache-2.0
// Element formulas of the elementwise operations: unary, binary, compare, select, casts. Semantics
// are those of ONNX and NumPy: NaN propagates through max and min, integer division truncates,
// halves round to even.
#include "ExponentSign.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t transcendentalCost = 16;
constexpr int64_t divisionCost = 4;

//===-- unary --------------------------------------------------------------------------------===//

Value emitSigmoid(Scalars &s, Value x) {
  Value one = s.constant(1);
  return s.div(one, s.add(one, s.math<math::ExpOp>(s.neg(x))));
}

/// x/2 (1 + erf(x / sqrt 2))
Value emitGelu(Scalars &s, Value x) {
  Value erf = s.math<math::ErfOp>(s.mul(x, s.constant(M_SQRT1_2)));
  return s.mul(s.mul(x, s.constant(0.5)), s.add(s.constant(1), erf));
}

/// x/2 (1 + tanh(sqrt(2/pi) x (1 + 0.044715 x^2))), in the order in which the gradient has it, so
/// that a kernel of both takes one tanh.
Value emitGeluTanh(Scalars &s, Value x) {
  Value bend = s.add(s.mul(s.mul(x, x), s.constant(0.044715)), s.constant(1));
  Value tanh = s.math<math::TanhOp>(s.mul(s.mul(x, bend), s.constant(std::sqrt(M_2_PI))));
  return s.mul(s.mul(x, s.constant(0.5)), s.add(s.constant(1), tanh));
}

/// log(1 + e^x) without overflow: max(x, 0) + log1p(e^-|x|)
Value emitSoftplus(Scalars &s, Value x) {
  Value tail = s.math<math::Log1pOp>(s.math<math::ExpOp>(s.neg(s.math<math::AbsFOp>(x))));
  return s.add(s.max(x, s.constant(0)), tail);
}

/// -1, 0 or 1; zeros and NaN are returned as they are.
Value emitSign(Scalars &s, Value x) {
  Value zero = s.integer(0);
  Value below = s.isUnsigned() ? x : s.select(s.compare("lt", x, zero), s.integer(-1), x);
  return s.select(s.compare("gt", x, zero), s.integer(1), below);
}

Value emitAbs(Scalars &s, Value x) {
  if (s.isFloat())
    return s.math<math::AbsFOp>(x);
  return s.isUnsigned() ? x : s.select(s.compare("lt", x, s.integer(0)), s.neg(x), x);
}

Value emitNot(Scalars &s, Value x) {
  Value ones = s.isBool()
                   ? Value(arith::ConstantOp::create(s.builder, s.loc, s.builder.getBoolAttr(true)))
                   : s.integer(-1);
  return s.math<arith::XOrIOp>(x, ones);
}

Value emitUnary(Scalars &s, UnaryKind kind, Value x) {
  switch (kind) {
  case UnaryKind::Neg:
    return s.neg(x);
  case UnaryKind::Abs:
    return emitAbs(s, x);
  case UnaryKind::Exp:
    return s.math<math::ExpOp>(x);
  case UnaryKind::Log:
    return s.math<math::LogOp>(x);
  case UnaryKind::Sqrt:
    return s.math<math::SqrtOp>(x);
  case UnaryKind::Rsqrt:
    return s.div(s.constant(1), s.math<math::SqrtOp>(x));
  case UnaryKind::Reciprocal:
    return s.div(s.integer(1), x);
  case UnaryKind::Sin:
    return s.math<math::SinOp>(x);
  case UnaryKind::Cos:
    return s.math<math::CosOp>(x);
  case UnaryKind::Tan:
    return s.math<math::TanOp>(x);
  case UnaryKind::Asin:
    return s.math<math::AsinOp>(x);
  case UnaryKind::Acos:
    return s.math<math::AcosOp>(x);
  case UnaryKind::Atan:
    return s.math<math::AtanOp>(x);
  case UnaryKind::Sinh:
    return s.math<math::SinhOp>(x);
  case UnaryKind::Cosh:
    return s.math<math::CoshOp>(x);
  case UnaryKind::Tanh:
    return s.math<math::TanhOp>(x);
  case UnaryKind::Asinh:
    return s.math<math::AsinhOp>(x);
  case UnaryKind::Acosh:
    return s.math<math::AcoshOp>(x);
  case UnaryKind::Atanh:
    return s.math<math::AtanhOp>(x);
  case UnaryKind::Erf:
    return s.math<math::ErfOp>(x);
  case UnaryKind::Sigmoid:
    return emitSigmoid(s, x);
  // A selection keeps NaN and is cheaper than a maximum that does.
  case UnaryKind::Relu:
    return s.isUnsigned() ? x : s.select(s.compare("lt", x, s.integer(0)), s.integer(0), x);
  case UnaryKind::Gelu:
    return emitGelu(s, x);
  case UnaryKind::GeluTanh:
    return emitGeluTanh(s, x);
  case UnaryKind::Silu:
    return s.mul(x, emitSigmoid(s, x));
  case UnaryKind::Softplus:
    return emitSoftplus(s, x);
  case UnaryKind::Sign:
    return emitSign(s, x);
  case UnaryKind::Floor:
    return s.math<math::FloorOp>(x);
  case UnaryKind::Ceil:
    return s.math<math::CeilOp>(x);
  case UnaryKind::Round:
    return s.math<math::RoundEvenOp>(x);
  case UnaryKind::Not:
    return emitNot(s, x);
  }
  llvm_unreachable("unknown unary kind");
}

struct UnaryModel : ElementLoweringOpInterface::ExternalModel<UnaryModel, UnaryOp> {
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto unary = cast<UnaryOp>(op);
    Scalars scalars(builder, op->getLoc(), unary.getType().getElementType());
    if (unary.getKind() == UnaryKind::Exp && hasNoPositiveExponent(unary))
      return emitExpOfNegative(scalars, loader.load(builder, 0));
    return emitUnary(scalars, unary.getKind(), loader.load(builder, 0));
  }
  int64_t getElementCost(Operation *op) const {
    switch (cast<UnaryOp>(op).getKind()) {
    case UnaryKind::Neg:
    case UnaryKind::Abs:
    case UnaryKind::Relu:
    case UnaryKind::Not:
    case UnaryKind::Floor:
    case UnaryKind::Ceil:
    case UnaryKind::Round:
      return 1;
    case UnaryKind::Sign:
      return 2;
    case UnaryKind::Sqrt:
    case UnaryKind::Reciprocal:
      return divisionCost;
    default:
      return transcendentalCost;
    }
  }
};

//===-- binary -------------------------------------------------------------------------------===//

/// The value of an operand that is the same constant everywhere, looking through broadcasts and
/// views.
std::optional<double> constantOperand(Value operand) {
  while (Operation *producer = operand.getDefiningOp()) {
    if (!isa<BroadcastOp, ReshapeOp>(producer))
      break;
    operand = producer->getOperand(0);
  }
  DenseElementsAttr value;
  if (!matchPattern(operand, m_Constant(&value)) || !value.isSplat())
    return std::nullopt;
  if (isa<FloatType>(value.getElementType()))
    return value.getSplatValue<APFloat>().convertToDouble();
  return std::nullopt;
}

Value emitFloatPower(Scalars &s, Value base, Value exponent, std::optional<double> constant) {
  if (constant == 2.0)
    return s.mul(base, base);
  if (constant == 3.0)
    return s.mul(s.mul(base, base), base);
  if (constant == 1.0)
    return base;
  return s.math<math::PowFOp>(base, exponent);
}

/// Square and multiply over the exponent's bits. Negative exponents give the truncated reciprocal
/// power: 0, but for the bases 1 and -1.
Value emitIntegerPower(Scalars &s, Value base, Value exponent) {
  OpBuilder &b = s.builder;
  Location loc = s.loc;
  Value zero = s.integer(0), one = s.integer(1);
  Value odd = s.math<arith::AndIOp>(exponent, one);
  Type type = s.getType();
  Value start = exponent;
  if (!s.isUnsigned())
    start = s.select(s.compare("lt", exponent, zero), zero, exponent);
  auto loop = scf::WhileOp::create(
      b, loc, TypeRange{type, type, type}, ValueRange{one, base, start},
      [&](OpBuilder &b, Location loc, ValueRange args) {
        Value more = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, args[2], zero);
        scf::ConditionOp::create(b, loc, more, args);
      },
      [&](OpBuilder &b, Location loc, ValueRange args) {
        Value bit = arith::AndIOp::create(b, loc, args[2], one);
        Value isSet = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, bit, zero);
        Value product = arith::MulIOp::create(b, loc, args[0], args[1]);
        Value result = arith::SelectOp::create(b, loc, isSet, product, args[0]);
        Value square = arith::MulIOp::create(b, loc, args[1], args[1]);
        Value rest = arith::ShRUIOp::create(b, loc, args[2], one);
        scf::YieldOp::create(b, loc, ValueRange{result, square, rest});
      });
  Value power = loop.getResult(0);
  if (s.isUnsigned())
    return power;
  Value isOdd = s.compare("ne", odd, zero);
  Value minusOne = s.integer(-1);
  Value reciprocal = s.select(s.compare("eq", base, one), one, zero);
  reciprocal =
      s.select(s.compare("eq", base, minusOne), s.select(isOdd, minusOne, one), reciprocal);
  return s.select(s.compare("lt", exponent, zero), reciprocal, power);
}

/// Python's %: the remainder takes the sign of the divisor.
Value emitModulo(Scalars &s, Value a, Value b) {
  Value remainder = s.remainder(a, b);
  if (s.isUnsigned())
    return remainder;
  Value zero = s.integer(0);
  Value nonzero = s.compare("ne", remainder, zero);
  Value differs = s.math<arith::XOrIOp>(s.compare("lt", remainder, zero), s.compare("lt", b, zero));
  Value correct = s.math<arith::AndIOp>(nonzero, differs);
  return s.select(correct, s.add(remainder, b), remainder);
}

/// Shifting by the width or more gives zero, or the sign for a signed right shift.
Value emitShift(Scalars &s, Value a, Value b, bool left) {
  int64_t width = s.getType().getIntOrFloatBitWidth();
  Value limit = s.integer(width - 1);
  Value tooFar = arith::CmpIOp::create(s.builder, s.loc, arith::CmpIPredicate::ugt, b, limit);
  Value amount = s.select(tooFar, limit, b);
  if (!left && !s.isUnsigned())
    return s.math<arith::ShRSIOp>(a, amount);
  Value shifted = left ? s.math<arith::ShLIOp>(a, amount) : s.math<arith::ShRUIOp>(a, amount);
  return s.select(tooFar, s.integer(0), shifted);
}

struct BinaryModel : ElementLoweringOpInterface::ExternalModel<BinaryModel, BinaryOp> {
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto binary = cast<BinaryOp>(op);
    Scalars s(builder, op->getLoc(), binary.getType().getElementType());
    Value a = loader.load(builder, 0), b = loader.load(builder, 1);
    switch (binary.getKind()) {
    case BinaryKind::Add:
      return s.add(a, b);
    case BinaryKind::Sub:
      return s.sub(a, b);
    case BinaryKind::Mul:
      return s.mul(a, b);
    case BinaryKind::Div:
      return s.div(a, b);
    case BinaryKind::Pow:
      return s.isFloat() ? emitFloatPower(s, a, b, constantOperand(binary.getRhs()))
                         : emitIntegerPower(s, a, b);
    case BinaryKind::Max:
      return s.max(a, b);
    case BinaryKind::Min:
      return s.min(a, b);
    case BinaryKind::Remainder:
      return s.remainder(a, b);
    case BinaryKind::Modulo:
      return emitModulo(s, a, b);
    case BinaryKind::And:
      return s.math<arith::AndIOp>(a, b);
    case BinaryKind::Or:
      return s.math<arith::OrIOp>(a, b);
    case BinaryKind::Xor:
      return s.math<arith::XOrIOp>(a, b);
    case BinaryKind::ShiftLeft:
      return emitShift(s, a, b, true);
    case BinaryKind::ShiftRight:
      return emitShift(s, a, b, false);
    }
    llvm_unreachable("unknown binary kind");
  }
  int64_t getElementCost(Operation *op) const {
    auto binary = cast<BinaryOp>(op);
    switch (binary.getKind()) {
    case BinaryKind::Div:
    case BinaryKind::Remainder:
    case BinaryKind::Modulo:
      return divisionCost;
    case BinaryKind::Pow:
      return constantOperand(binary.getRhs()) ? 2 : transcendentalCost;
    default:
      return 1;
    }
  }
};

//===-- compare, select, casts ---------------------------------------------------------------===//

struct CompareModel : ElementLoweringOpInterface::ExternalModel<CompareModel, CompareOp> {
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto compare = cast<CompareOp>(op);
    Scalars scalars(builder, op->getLoc(), elementTypeOf(compare.getLhs()));
    Value a = loader.load(builder, 0), b = loader.load(builder, 1);
    return scalars.compare(stringifyComparePredicate(compare.getPredicate()), a, b);
  }
};

struct SelectModel : ElementLoweringOpInterface::ExternalModel<SelectModel, SelectOp> {
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    Value condition = loader.load(builder, 0);
    Value onTrue = loader.load(builder, 1), onFalse = loader.load(builder, 2);
    return arith::SelectOp::create(builder, op->getLoc(), condition, onTrue, onFalse);
  }
};

struct CastModel : ElementLoweringOpInterface::ExternalModel<CastModel, CastOp> {
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto cast = llvm::cast<CastOp>(op);
    return castScalar(builder, op->getLoc(), loader.load(builder, 0),
                      elementTypeOf(cast.getInput()), cast.getType().getElementType(),
                      cast.getOverflows());
  }
};

/// Bits are those that are stored: narrow floats travel as f32.
struct BitcastModel : ElementLoweringOpInterface::ExternalModel<BitcastModel, BitcastOp> {
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    Location loc = op->getLoc();
    Type from = elementTypeOf(op->getOperand(0)), to = elementTypeOf(op->getResult(0));
    Value bits = toStorage(builder, loc, loader.load(builder, 0), from);
    if (bits.getType() != getStorageType(to))
      bits = arith::BitcastOp::create(builder, loc, getStorageType(to), bits);
    return fromStorage(builder, loc, bits, to);
  }
};

} // namespace

void autopar::attachElementwiseModels(MLIRContext &context) {
  UnaryOp::attachInterface<UnaryModel>(context);
  BinaryOp::attachInterface<BinaryModel>(context);
  CompareOp::attachInterface<CompareModel>(context);
  SelectOp::attachInterface<SelectModel>(context);
  CastOp::attachInterface<CastModel>(context);
  BitcastOp::attachInterface<BitcastModel>(context);
}
