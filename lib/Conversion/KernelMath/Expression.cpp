// SPDX-License-Identifier: Apache-2.0
// The operators of Expression.h: each appends the op of the arith or math dialect that it names.
#include "Expression.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;

namespace autopar::kernelmath {

Type Expr::withElement(Type element) const {
  if (auto shaped = dyn_cast<ShapedType>(val.getType()))
    return shaped.clone(element);
  return element;
}

Expr Expr::constant(double number) const {
  if (!isFloat())
    return integer(static_cast<int64_t>(number));
  auto floatType = cast<FloatType>(elementType());
  APFloat converted(number);
  bool lost = false;
  converted.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  TypedAttr attr = FloatAttr::get(floatType, converted);
  if (auto shaped = dyn_cast<ShapedType>(type()))
    attr = DenseElementsAttr::get(shaped, cast<Attribute>(attr));
  return {*builder, arith::ConstantOp::create(*builder, attr)};
}

Expr Expr::integer(int64_t number) const {
  TypedAttr attr = IntegerAttr::get(elementType(), number);
  if (auto shaped = dyn_cast<ShapedType>(type()))
    attr = DenseElementsAttr::get(shaped, cast<Attribute>(attr));
  return {*builder, arith::ConstantOp::create(*builder, attr)};
}

Expr Expr::bits() const {
  Type target = withElement(builder->getIntegerType(width()));
  return {*builder, arith::BitcastOp::create(*builder, target, val)};
}

Expr Expr::asFloat() const {
  Type element = width() == 64   ? Type(builder->getF64Type())
                 : width() == 32 ? Type(builder->getF32Type())
                                 : Type(builder->getF16Type());
  return {*builder, arith::BitcastOp::create(*builder, withElement(element), val)};
}

Expr Expr::to(Type element) const {
  if (element == elementType())
    return *this;
  Type target = withElement(element);
  bool toFloat = isa<FloatType>(element);
  bool wider = element.getIntOrFloatBitWidth() > width();
  if (isFloat() && toFloat)
    return {*builder, wider ? arith::ExtFOp::create(*builder, target, val).getResult()
                            : arith::TruncFOp::create(*builder, target, val).getResult()};
  if (isFloat())
    return {*builder, arith::FPToSIOp::create(*builder, target, val)};
  if (toFloat)
    return {*builder, arith::SIToFPOp::create(*builder, target, val)};
  return {*builder, wider ? arith::ExtSIOp::create(*builder, target, val).getResult()
                          : arith::TruncIOp::create(*builder, target, val).getResult()};
}

Expr Expr::compare(arith::CmpFPredicate predicate, Expr other) const {
  return {*builder, arith::CmpFOp::create(*builder, predicate, val, other.val)};
}

Expr Expr::compare(arith::CmpIPredicate predicate, Expr other) const {
  return {*builder, arith::CmpIOp::create(*builder, predicate, val, other.val)};
}

Expr operator+(Expr a, Expr b) {
  return a.isFloat() ? a.binary<arith::AddFOp>(b) : a.binary<arith::AddIOp>(b);
}
Expr operator-(Expr a, Expr b) {
  return a.isFloat() ? a.binary<arith::SubFOp>(b) : a.binary<arith::SubIOp>(b);
}
Expr operator*(Expr a, Expr b) {
  return a.isFloat() ? a.binary<arith::MulFOp>(b) : a.binary<arith::MulIOp>(b);
}
Expr operator/(Expr a, Expr b) { return a.binary<arith::DivFOp>(b); }
Expr operator-(Expr a) { return a.unary<arith::NegFOp>(); }

Expr operator&(Expr a, Expr b) { return a.binary<arith::AndIOp>(b); }
Expr operator|(Expr a, Expr b) { return a.binary<arith::OrIOp>(b); }
Expr operator^(Expr a, Expr b) { return a.binary<arith::XOrIOp>(b); }
Expr shiftLeft(Expr a, int64_t by) { return a.binary<arith::ShLIOp>(a.integer(by)); }
Expr shiftRight(Expr a, int64_t by) { return a.binary<arith::ShRSIOp>(a.integer(by)); }
Expr shiftRightLogic(Expr a, int64_t by) { return a.binary<arith::ShRUIOp>(a.integer(by)); }

Expr operator<(Expr a, Expr b) {
  return a.isFloat() ? a.compare(arith::CmpFPredicate::OLT, b)
                     : a.compare(arith::CmpIPredicate::slt, b);
}
Expr operator>(Expr a, Expr b) {
  return a.isFloat() ? a.compare(arith::CmpFPredicate::OGT, b)
                     : a.compare(arith::CmpIPredicate::sgt, b);
}
Expr operator==(Expr a, Expr b) {
  return a.isFloat() ? a.compare(arith::CmpFPredicate::OEQ, b)
                     : a.compare(arith::CmpIPredicate::eq, b);
}
Expr isNan(Expr a) { return a.compare(arith::CmpFPredicate::UNO, a); }

Expr select(Expr condition, Expr a, Expr b) {
  auto &builder = a.getBuilder();
  return {builder, arith::SelectOp::create(builder, condition.value(), a.value(), b.value())};
}

Expr fma(Expr a, Expr b, Expr c) {
  auto &builder = a.getBuilder();
  return {builder, math::FmaOp::create(builder, a.value(), b.value(), c.value())};
}

Expr abs(Expr a) { return a.unary<math::AbsFOp>(); }
Expr sqrt(Expr a) { return a.unary<math::SqrtOp>(); }
Expr trunc(Expr a) { return a.unary<math::TruncOp>(); }
Expr floor(Expr a) { return a.unary<math::FloorOp>(); }
Expr copySign(Expr magnitude, Expr sign) { return magnitude.binary<math::CopySignOp>(sign); }

Expr clampAbove(Expr a, double limit) {
  Expr bound = a.constant(limit);
  return select(bound < a, bound, a);
}

Expr clampBelow(Expr a, double limit) {
  Expr bound = a.constant(limit);
  return select(bound > a, bound, a);
}

Expr polynomial(Expr x, std::initializer_list<double> coefficients) {
  auto next = std::rbegin(coefficients);
  Expr result = x.constant(*next);
  for (++next; next != std::rend(coefficients); ++next)
    result = fma(result, x, *next);
  return result;
}

} // namespace autopar::kernelmath
