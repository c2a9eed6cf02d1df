// SPDX-License-Identifier: Apache-2.0
// A value with operators: lets the formulas of this room read like formulas. Every operator appends
// one op at the builder's insertion point; no fast-math flags are set, so LLVM evaluates exactly
// what is written.
#ifndef AUTOPAR_LIB_CONVERSION_KERNELMATH_EXPRESSION_H
#define AUTOPAR_LIB_CONVERSION_KERNELMATH_EXPRESSION_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

#include <initializer_list>

namespace autopar::kernelmath {

/// A float, integer or boolean scalar (or vector) under construction. Copies are cheap; the builder
/// must outlive it. Operands of one operator have the same type; a plain number takes the type of
/// the other side.
class Expr {
public:
  Expr(mlir::ImplicitLocOpBuilder &builder, mlir::Value value) : builder(&builder), val(value) {}

  mlir::Value value() const { return val; }
  mlir::Type type() const { return val.getType(); }
  mlir::Type elementType() const { return mlir::getElementTypeOrSelf(val.getType()); }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(elementType()); }
  bool isF64() const { return elementType().isF64(); }
  unsigned width() const { return elementType().getIntOrFloatBitWidth(); }

  /// A constant of this value's type.
  Expr constant(double number) const;
  /// An integer constant of this value's (integer) type.
  Expr integer(int64_t number) const;
  /// The same bits seen as an integer, or (`asFloat`) as a float of the same width.
  Expr bits() const;
  Expr asFloat() const;
  /// Conversion to another element type (numeric, round to nearest; float to integer truncates).
  Expr to(mlir::Type element) const;

  template <class Op>
  Expr unary() const {
    return {*builder, Op::create(*builder, val)};
  }
  template <class Op>
  Expr binary(Expr other) const {
    return {*builder, Op::create(*builder, val, other.val)};
  }
  Expr compare(mlir::arith::CmpFPredicate predicate, Expr other) const;
  Expr compare(mlir::arith::CmpIPredicate predicate, Expr other) const;

  mlir::ImplicitLocOpBuilder &getBuilder() const { return *builder; }

private:
  mlir::Type withElement(mlir::Type element) const;

  mlir::ImplicitLocOpBuilder *builder;
  mlir::Value val;
};

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
inline Expr operator+(Expr a, double b) { return a + a.constant(b); }
inline Expr operator-(Expr a, double b) { return a - a.constant(b); }
inline Expr operator*(Expr a, double b) { return a * a.constant(b); }
inline Expr operator+(double a, Expr b) { return b.constant(a) + b; }
inline Expr operator-(double a, Expr b) { return b.constant(a) - b; }
inline Expr operator/(double a, Expr b) { return b.constant(a) / b; }
Expr operator-(Expr a);

/// Bit operations on integers and booleans.
Expr operator&(Expr a, Expr b);
Expr operator|(Expr a, Expr b);
Expr operator^(Expr a, Expr b);
Expr shiftLeft(Expr a, int64_t by);
Expr shiftRight(Expr a, int64_t by); // arithmetic
Expr shiftRightLogic(Expr a, int64_t by);

/// Comparisons: floats ordered (false with NaN), integers signed.
Expr operator<(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator==(Expr a, Expr b);
inline Expr operator<(Expr a, double b) { return a < a.constant(b); }
inline Expr operator>(Expr a, double b) { return a > a.constant(b); }
inline Expr operator==(Expr a, double b) { return a == a.constant(b); }
/// True where `a` is NaN.
Expr isNan(Expr a);

Expr select(Expr condition, Expr a, Expr b);
/// a * b + c with one rounding.
Expr fma(Expr a, Expr b, Expr c);
inline Expr fma(Expr a, double b, Expr c) { return fma(a, a.constant(b), c); }
inline Expr fma(Expr a, Expr b, double c) { return fma(a, b, a.constant(c)); }
inline Expr fma(Expr a, double b, double c) { return fma(a, a.constant(b), a.constant(c)); }
Expr abs(Expr a);
Expr sqrt(Expr a);
Expr trunc(Expr a);
Expr floor(Expr a);
/// |magnitude| with the sign of `sign`.
Expr copySign(Expr magnitude, Expr sign);
/// The limit where `a` is beyond it; NaN stays NaN (one instruction on x86).
Expr clampAbove(Expr a, double limit);
Expr clampBelow(Expr a, double limit);
/// coefficients[0] + coefficients[1] x + ... by Horner's rule with fused multiply-adds.
Expr polynomial(Expr x, std::initializer_list<double> coefficients);

} // namespace autopar::kernelmath

#endif // AUTOPAR_LIB_CONVERSION_KERNELMATH_EXPRESSION_H
