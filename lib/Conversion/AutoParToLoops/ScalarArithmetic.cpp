// SPDX-License-Identifier: Apache-2.0
// Arithmetic on the scalars of element formulas, with the semantics of the autopar dialect where C
// or LLVM would leave a result undefined.
#include "ScalarArithmetic.h"

#include "../KernelMath/ByteFloats.h"

#include "autopar/Interfaces/ElementTypes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::autopar;
using arith::FastMathFlags;
using ::autopar::kernelmath::decodeByteFloat;
using ::autopar::kernelmath::encodeByteFloat;

Type mlir::autopar::getScalarType(Type elementType) {
  if (elementType.isF16() || elementType.isBF16() || isByteFloat(elementType))
    return Float32Type::get(elementType.getContext());
  if (auto integer = dyn_cast<IntegerType>(elementType))
    return IntegerType::get(elementType.getContext(), integer.getWidth());
  return elementType;
}

Type mlir::autopar::getStorageType(Type elementType) {
  if (elementType.isInteger(1) || isByteFloat(elementType))
    return IntegerType::get(elementType.getContext(), 8);
  if (auto integer = dyn_cast<IntegerType>(elementType))
    return IntegerType::get(elementType.getContext(), integer.getWidth());
  return elementType;
}

Scalars::Scalars(OpBuilder &builder, Location loc, Type elementType)
    : builder(builder), loc(loc), type(getScalarType(elementType)),
      isUnsignedType(elementType.isUnsignedInteger() || elementType.isInteger(1)) {}

Value Scalars::constant(double value) {
  if (!isFloat())
    return integer(static_cast<int64_t>(value));
  return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, value));
}

Value Scalars::integer(int64_t value) {
  if (isFloat())
    return constant(static_cast<double>(value));
  APInt bits = APInt(64, value, true).sextOrTrunc(type.getIntOrFloatBitWidth());
  return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, bits));
}

Value Scalars::lowest() {
  if (auto floating = dyn_cast<FloatType>(type))
    return arith::ConstantOp::create(
        builder, loc,
        builder.getFloatAttr(type, APFloat::getInf(floating.getFloatSemantics(), true)));
  unsigned width = type.getIntOrFloatBitWidth();
  APInt bits = isUnsignedType ? APInt::getZero(width) : APInt::getSignedMinValue(width);
  return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, bits));
}

Value Scalars::highest() {
  if (auto floating = dyn_cast<FloatType>(type))
    return arith::ConstantOp::create(
        builder, loc, builder.getFloatAttr(type, APFloat::getInf(floating.getFloatSemantics())));
  unsigned width = type.getIntOrFloatBitWidth();
  APInt bits = isUnsignedType ? APInt::getAllOnes(width) : APInt::getSignedMaxValue(width);
  return arith::ConstantOp::create(builder, loc, builder.getIntegerAttr(type, bits));
}

Value Scalars::add(Value a, Value b) {
  return isFloat() ? math<arith::AddFOp>(a, b) : math<arith::AddIOp>(a, b);
}
Value Scalars::sub(Value a, Value b) {
  return isFloat() ? math<arith::SubFOp>(a, b) : math<arith::SubIOp>(a, b);
}
Value Scalars::mul(Value a, Value b) {
  return isFloat() ? math<arith::MulFOp>(a, b) : math<arith::MulIOp>(a, b);
}
Value Scalars::neg(Value a) { return isFloat() ? math<arith::NegFOp>(a) : sub(integer(0), a); }

/// Integer division that traps for no operands: the divisor is replaced by 1 where the processor
/// would fault, and the result corrected.
Value Scalars::safeQuotient(Value a, Value b, bool wantRemainder) {
  Value zero = integer(0), one = integer(1);
  Value byZero = compare("eq", b, zero);
  if (isUnsignedType) {
    Value divisor = select(byZero, one, b);
    Value result =
        wantRemainder ? math<arith::RemUIOp>(a, divisor) : math<arith::DivUIOp>(a, divisor);
    return select(byZero, zero, result);
  }
  Value byMinusOne = compare("eq", b, integer(-1));
  Value unsafe = arith::OrIOp::create(builder, loc, byZero, byMinusOne);
  Value divisor = select(unsafe, one, b);
  if (wantRemainder)
    return select(unsafe, zero, math<arith::RemSIOp>(a, divisor));
  Value quotient = select(byMinusOne, neg(a), math<arith::DivSIOp>(a, divisor));
  return select(byZero, zero, quotient);
}

Value Scalars::div(Value a, Value b) {
  return isFloat() ? math<arith::DivFOp>(a, b) : safeQuotient(a, b, false);
}
Value Scalars::remainder(Value a, Value b) {
  return isFloat() ? math<arith::RemFOp>(a, b) : safeQuotient(a, b, true);
}
Value Scalars::max(Value a, Value b) {
  if (isFloat())
    return math<arith::MaximumFOp>(a, b);
  return isUnsignedType ? math<arith::MaxUIOp>(a, b) : math<arith::MaxSIOp>(a, b);
}
Value Scalars::min(Value a, Value b) {
  if (isFloat())
    return math<arith::MinimumFOp>(a, b);
  return isUnsignedType ? math<arith::MinUIOp>(a, b) : math<arith::MinSIOp>(a, b);
}

Value Scalars::compare(StringRef predicate, Value a, Value b) {
  if (isFloat()) {
    std::string name = (predicate == "ne" ? "u" : "o") + predicate.str();
    return arith::CmpFOp::create(builder, loc, *arith::symbolizeCmpFPredicate(name), a, b);
  }
  bool equality = predicate == "eq" || predicate == "ne";
  std::string name = (equality ? "" : isUnsignedType ? "u" : "s") + predicate.str();
  return arith::CmpIOp::create(builder, loc, *arith::symbolizeCmpIPredicate(name), a, b);
}
Value Scalars::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Value Scalars::addRelaxed(Value a, Value b) {
  if (!isFloat())
    return add(a, b);
  for (Value term : {a, b}) // one operation may multiply and add
    if (auto product = term.getDefiningOp<arith::MulFOp>())
      product.setFastmath(product.getFastmath() | FastMathFlags::contract);
  return arith::AddFOp::create(builder, loc, a, b,
                               FastMathFlags::reassoc | FastMathFlags::contract);
}
Value Scalars::mulRelaxed(Value a, Value b) {
  if (!isFloat())
    return mul(a, b);
  return arith::MulFOp::create(builder, loc, a, b,
                               FastMathFlags::reassoc | FastMathFlags::contract);
}
Value Scalars::maxRelaxed(Value a, Value b) {
  if (!isFloat())
    return max(a, b);
  return arith::MaxNumFOp::create(builder, loc, a, b, FastMathFlags::nnan | FastMathFlags::nsz);
}

Value mlir::autopar::indexConstant(OpBuilder &builder, Location loc, int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

//===-- memory and conversions ---------------------------------------------------------------===//

static Value widen(OpBuilder &builder, Location loc, Value value, Type type) {
  return arith::ExtFOp::create(builder, loc, type, value, arith::FastMathFlagsAttr());
}

/// Of an operation whose result is what a byte means: the byte's type.
static constexpr StringLiteral kDecoded = "autopar.decoded";

/// The byte that a number of a type of 8 bits was decoded from; null for any other number.
static Value byteOf(Value number, Type elementType) {
  Operation *op = number.getDefiningOp();
  if (!op || op->getAttr(kDecoded) != TypeAttr::get(elementType))
    return {};
  SmallVector<Value> worklist{number};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (value.getType().isInteger(8))
      return value;
    if (Operation *made = value.getDefiningOp())
      llvm::append_range(worklist, made->getOperands());
  }
  return {};
}

Value mlir::autopar::fromStorage(OpBuilder &builder, Location loc, Value stored, Type elementType) {
  if (elementType.isInteger(1)) {
    Value zero = arith::ConstantOp::create(builder, loc, builder.getI8IntegerAttr(0));
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, stored, zero);
  }
  if (isByteFloat(elementType)) {
    ImplicitLocOpBuilder here(loc, builder);
    Value number = decodeByteFloat({here, stored}, cast<FloatType>(elementType)).value();
    number.getDefiningOp()->setAttr(kDecoded, TypeAttr::get(elementType));
    return number;
  }
  Type scalar = getScalarType(elementType);
  if (isa<FloatType>(scalar) && scalar != elementType)
    return widen(builder, loc, stored, scalar);
  return stored;
}

Value mlir::autopar::toStorage(OpBuilder &builder, Location loc, Value scalar, Type elementType) {
  if (elementType.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, builder.getI8Type(), scalar);
  if (isByteFloat(elementType)) {
    if (Value byte = byteOf(scalar, elementType))
      return byte;
    ImplicitLocOpBuilder here(loc, builder);
    return encodeByteFloat({here, scalar}, cast<FloatType>(elementType)).value();
  }
  if (isa<FloatType>(elementType) && scalar.getType() != elementType)
    return arith::TruncFOp::create(builder, loc, elementType, scalar);
  return scalar;
}

Value mlir::autopar::roundTo(OpBuilder &builder, Location loc, Value scalar, Type elementType) {
  if (scalar.getType() == elementType || !isa<FloatType>(elementType))
    return scalar;
  return fromStorage(builder, loc, toStorage(builder, loc, scalar, elementType), elementType);
}

Value mlir::autopar::loadScalar(OpBuilder &builder, Location loc, Value memref, ValueRange offset,
                                Type elementType) {
  Value stored = memref::LoadOp::create(builder, loc, memref, offset);
  return fromStorage(builder, loc, stored, elementType);
}

void mlir::autopar::storeScalar(OpBuilder &builder, Location loc, Value scalar, Value memref,
                                ValueRange offset, Type elementType) {
  Value stored = toStorage(builder, loc, scalar, elementType);
  memref::StoreOp::create(builder, loc, stored, memref, offset);
}

/// Through a wide enough signed integer and then truncated, so that values wrap as in NumPy instead
/// of being undefined, and the vector conversion of the machine applies.
static Value floatToInteger(OpBuilder &builder, Location loc, Value scalar, IntegerType to) {
  Type target = getScalarType(to);
  if (to.getWidth() == 64) {
    if (to.isUnsigned())
      return arith::FPToUIOp::create(builder, loc, target, scalar);
    return arith::FPToSIOp::create(builder, loc, target, scalar);
  }
  bool viaWord = to.getWidth() < 32 || !to.isUnsigned();
  Type wide = viaWord ? builder.getI32Type() : builder.getI64Type();
  Value integer = arith::FPToSIOp::create(builder, loc, wide, scalar);
  if (wide == target)
    return integer;
  return arith::TruncIOp::create(builder, loc, target, integer);
}

/// `scalar`, a float, or the largest number of `type` that lies before it; NaN stays.
static Value clampTo(OpBuilder &builder, Location loc, Value scalar, FloatType type) {
  double most = APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  ImplicitLocOpBuilder here(loc, builder);
  ::autopar::kernelmath::Expr x(here, scalar);
  return clampAbove(clampBelow(x, -most), most).value();
}

Value mlir::autopar::castScalar(OpBuilder &builder, Location loc, Value scalar, Type from, Type to,
                                bool overflows) {
  if (from == to)
    return scalar;
  if (to.isInteger(1)) {
    Scalars scalars(builder, loc, from);
    return scalars.compare("ne", scalar, scalars.integer(0));
  }
  Type target = getScalarType(to);
  bool saturates = isByteFloat(to) && !overflows;
  if (auto fromFloat = dyn_cast<FloatType>(scalar.getType())) {
    auto toFloat = dyn_cast<FloatType>(target);
    if (!toFloat)
      return floatToInteger(builder, loc, scalar, cast<IntegerType>(to));
    if (fromFloat.getWidth() < toFloat.getWidth())
      scalar = widen(builder, loc, scalar, target);
    else if (fromFloat.getWidth() > toFloat.getWidth())
      scalar = arith::TruncFOp::create(builder, loc, target, scalar);
    if (saturates)
      scalar = clampTo(builder, loc, scalar, cast<FloatType>(to));
    return roundTo(builder, loc, scalar, to);
  }
  bool isUnsigned = from.isUnsignedInteger() || from.isInteger(1);
  if (isa<FloatType>(target)) {
    if (isUnsigned)
      scalar = arith::UIToFPOp::create(builder, loc, target, scalar);
    else
      scalar = arith::SIToFPOp::create(builder, loc, target, scalar);
    if (saturates)
      scalar = clampTo(builder, loc, scalar, cast<FloatType>(to));
    return roundTo(builder, loc, scalar, to);
  }
  unsigned have = scalar.getType().getIntOrFloatBitWidth(), want = target.getIntOrFloatBitWidth();
  if (have > want)
    return arith::TruncIOp::create(builder, loc, target, scalar);
  if (have == want)
    return scalar;
  if (isUnsigned)
    return arith::ExtUIOp::create(builder, loc, target, scalar);
  return arith::ExtSIOp::create(builder, loc, target, scalar);
}
