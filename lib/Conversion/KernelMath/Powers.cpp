// SPDX-License-Identifier: Apache-2.0
// Powers, roots and the remainder. x^y = exp(y log x) needs more bits in the middle than at the
// ends: f32 takes f64 for that, f64 a logarithm in two parts. Special cases follow C's pow (ISO C,
// Annex F).
#include "Formulas.h"

#include <cmath>
#include <limits>

namespace autopar::kernelmath {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// |x|^y where the exponent is not 0 and |x| is neither 1 nor NaN.
Expr powOfMagnitude(Expr a, Expr y) {
  auto f64 = a.getBuilder().getF64Type();
  if (!a.isF64()) {
    Expr power = exp2Formula(y.to(f64) * logFormula(a.to(f64), LogBase::Two));
    return power.to(a.elementType());
  }
  auto [high, low] = logInTwoParts(a);
  high = select(a == 0.0, a.constant(-infinity), select((a == infinity) | isNan(a), a, high));
  low = select((a == 0.0) | (a == infinity), a.constant(0.0), low);
  Expr product = y * high;
  Expr rest = fma(y, high, -product) + y * low;
  rest = select(abs(product) < 1e4, rest, a.constant(0.0));
  Expr e = expFormula(product);
  return select(abs(e) == infinity, e, fma(e, rest, e));
}

} // namespace

Expr powFormula(Expr x, Expr y) {
  Expr a = abs(x);
  Expr one = x.constant(1.0);
  Expr undefined = x.constant(std::numeric_limits<double>::quiet_NaN());
  Expr magnitude = powOfMagnitude(a, y);
  magnitude = select((a == 1.0) & (y == y), one, magnitude);
  Expr integral = floor(y) == y;
  Expr halved = y * 0.5;
  Expr odd = integral & (floor(halved) < halved);
  Expr negative = x.bits() < x.bits().integer(0);
  Expr result = select(negative & odd, -magnitude, magnitude);
  Expr refused = (x < 0.0) & (x > -infinity) & (floor(y) < y);
  result = select(refused, undefined, result);
  return select((y == 0.0) | (x == 1.0), one, result);
}

Expr integerPowerFormula(Expr x, int64_t n) {
  uint64_t left = n < 0 ? -static_cast<uint64_t>(n) : n;
  if (left == 0)
    return x.constant(1.0);
  Expr square = x, result = x;
  bool started = false;
  for (; left != 0; left >>= 1) {
    if (left & 1) {
      result = started ? result * square : square;
      started = true;
    }
    if (left > 1)
      square = square * square;
  }
  return n < 0 ? 1.0 / result : result;
}

Expr cbrtFormula(Expr x) {
  Expr a = abs(x);
  // Near the denormals the residual below would have no bits left.
  Expr small = a < 1e-30;
  a = select(small, a * 0x1p90, a);
  Expr y = expFormula(logFormula(a, LogBase::E) * (1.0 / 3.0));
  Expr square = y * y;
  // One Newton step; fma keeps the residual's bits.
  Expr residual = fma(square, y, -a);
  Expr refined = y - residual / (square * 3.0);
  refined = select(small, refined * 0x1p-30, refined);
  Expr special = (a == 0.0) | (a == infinity) | isNan(x);
  return select(special, x, copySign(refined, x));
}

Expr rsqrtFormula(Expr x) { return 1.0 / sqrt(x); }

/// The remainder of a / b for a, b >= 0, in f64.
static Expr remainderOfMagnitudes(Expr a, Expr b) {
  Expr q = trunc(a / b);
  Expr r = fma(-q, b, a);
  // The rounded quotient may be one off.
  r = select(r < 0.0, r + b, r);
  r = select(r.compare(mlir::arith::CmpFPredicate::OGE, b), r - b, r);
  return select((b == infinity) & (a < infinity), a, r);
}

Expr remainderFormula(Expr x, Expr y) {
  auto f64 = x.getBuilder().getF64Type();
  Expr r = remainderOfMagnitudes(abs(x.to(f64)), abs(y.to(f64)));
  // The sign is set in x's own type: rounded from f64 to f16 it would be a call of a library.
  return copySign(r.to(x.elementType()), x);
}

} // namespace autopar::kernelmath
