// SPDX-License-Identifier: Apache-2.0
// log and its relatives. Method: x = m 2^e with m in [sqrt(1/2), sqrt(2)); f32 uses a polynomial in
// f = m - 1, f64 one in s = f / (2 + f) as in Sun's fdlibm. Coefficients: Remez fits of our own.
#include "Formulas.h"

#include <cfloat>
#include <cmath>
#include <limits>

namespace autopar::kernelmath {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Split {
  Expr m, e; // both floats
};

/// x = m 2^e for positive finite x; denormals are scaled up first unless `normal`.
Split split(Expr x, bool normal) {
  bool wide = x.isF64();
  int bits = wide ? 52 : 23;
  Expr lowered = x.constant(0.0);
  if (!normal) {
    Expr small = x < (wide ? DBL_MIN : static_cast<double>(FLT_MIN));
    lowered = select(small, x.constant(-bits), lowered);
    x = select(small, x * std::ldexp(1.0, bits), x);
  }
  // Subtracting the bits of sqrt(1/2) makes the exponent field count from there.
  int64_t root = wide ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  Expr shifted = x.bits() - x.bits().integer(root);
  Expr mantissa = (shifted & shifted.integer((int64_t(1) << bits) - 1)) + shifted.integer(root);
  // Exponents of f64 fit in 32 bits, from where every level can convert vectors.
  Expr exponent = shiftRight(shifted, bits);
  if (wide)
    exponent = exponent.to(x.getBuilder().getI32Type());
  Expr e = exponent.to(x.elementType());
  return {mantissa.asFloat(), normal ? e : e + lowered};
}

/// log(1 + f) - f for f = m - 1.
Expr logTail(Expr f) {
  Expr square = f * f;
  if (f.isF64()) {
    Expr s = f / (f + 2.0);
    Expr z = s * s;
    Expr r = z * polynomial(z, {0.6666666666666666, 0.40000000000006225, 0.28571428569093,
                                0.22222222645786238, 0.18181775742174294, 0.15387087563025742,
                                0.13250187084181234, 0.13250726597961446});
    Expr half = square * 0.5;
    return s * (half + r) - half;
  }
  Expr p = polynomial(f, {0.3333331346511841, -0.25000008940696716, 0.2000211775302887,
                          -0.1666799634695053, 0.14219564199447632, -0.12405567616224289,
                          0.11888080090284348, -0.11675792932510376, 0.06746971607208252});
  return fma(square, -0.5, square * f * p);
}

/// log of a positive finite number.
Expr logOfPositive(Expr x, LogBase base, bool normal) {
  bool wide = x.isF64();
  Split parts = split(x, normal);
  Expr e = parts.e, f = parts.m - 1.0;
  Expr tail = logTail(f);
  switch (base) {
  case LogBase::E:
    if (wide)
      return fma(e, 0x1.62e42feep-1, f + fma(e, 1.90821492927058770002e-10, tail));
    return fma(e, 0.693359375, f + fma(e, -2.12194440e-4, tail));
  case LogBase::Two:
    return e + (f * 1.4426950408889634 + tail * 1.4426950408889634);
  case LogBase::Ten:
    // log10(2) with few bits, and the rest.
    return fma(e, 0.30078125, fma(e, 0.00024874566398119521, (f + tail) * 0.43429448190325183));
  }
  return e;
}

/// Replaces the results for arguments that are not positive and finite.
Expr withSpecialCases(Expr result, Expr x, Allowance allow) {
  if (!allow.noInfinities) {
    result = select(x == infinity, x, result);
    result = select(x == 0.0, x.constant(-infinity), result);
  }
  if (!allow.noNans)
    result = select(x.compare(mlir::arith::CmpFPredicate::ULT, x.constant(0.0)),
                    x.constant(std::numeric_limits<double>::quiet_NaN()), result);
  return result;
}

} // namespace

Expr logFormula(Expr x, LogBase base, Allowance allow) {
  return withSpecialCases(logOfPositive(x, base, allow.approximate), x, allow);
}

Expr log1pFormula(Expr x) {
  // u = 1 + x loses x - (u - 1), whose share of the logarithm is that over u.
  Expr u = x + 1.0;
  Expr correction = (x - (u - 1.0)) / u;
  correction = select(isNan(correction), x.constant(0.0), correction);
  Expr small = abs(x) < (x.isF64() ? 1e-17 : 1e-9); // keeps denormals and the sign of 0
  return select(small, x, logFormula(u, LogBase::E) + correction);
}

Expr asinhFormula(Expr x) {
  double huge = x.isF64() ? 1e150 : 1e18;
  Expr a = abs(x);
  Expr b = clampAbove(a, huge);
  Expr square = b * b;
  Expr inner = log1pFormula(b + square / (1.0 + sqrt(square + 1.0)));
  return copySign(select(a > huge, logFormula(a, LogBase::E) + 0.6931471805599453, inner), x);
}

Expr acoshFormula(Expr x) {
  double huge = x.isF64() ? 1e150 : 1e18;
  Expr t = clampAbove(x, huge) - 1.0;
  Expr inner = log1pFormula(t + sqrt(t * (t + 2.0)));
  Expr large = logFormula(x, LogBase::E) + 0.6931471805599453;
  Expr invalid = x.constant(std::numeric_limits<double>::quiet_NaN());
  return select(x.compare(mlir::arith::CmpFPredicate::ULT, x.constant(1.0)), invalid,
                select(x > huge, large, inner));
}

Expr atanhFormula(Expr x) {
  Expr a = abs(x);
  return copySign(log1pFormula(a * 2.0 / (1.0 - a)) * 0.5, x);
}

std::pair<Expr, Expr> logInTwoParts(Expr x) {
  Split parts = split(x, /*normal=*/false);
  Expr m = parts.m, e = parts.e;
  Expr f = m - 1.0, d = m + 1.0;
  Expr lost = m - (d - 1.0);
  Expr s = f / d;
  Expr sLow = (fma(-s, d, f) - s * lost) / d;
  Expr z = s * s;
  Expr tail = s * z *
              polynomial(z, {0.6666666666666666, 0.40000000000006225, 0.28571428569093,
                             0.22222222645786238, 0.18181775742174294, 0.15387087563025742,
                             0.13250187084181234, 0.13250726597961446});
  Expr main = s * 2.0;
  Expr shift = e * 0x1.62e42feep-1; // exact: the factor's last 21 bits are 0
  Expr high = shift + main;
  Expr low = (shift - high) + main + fma(e, 1.90821492927058770002e-10, fma(sLow, 2.0, tail));
  Expr sum = high + low;
  return {sum, (high - sum) + low};
}

} // namespace autopar::kernelmath
