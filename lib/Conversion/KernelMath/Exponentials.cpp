// SPDX-License-Identifier: Apache-2.0
// exp and its relatives. Method: x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, Cody and
// Waite 1980), a minimax polynomial for e^r, and 2^n made from exponent bits. Coefficients: Remez
// fits of our own.
#include "Formulas.h"

#include <cmath>

namespace autopar::kernelmath {
namespace {

constexpr double log2e = 1.4426950408889634;

/// Facts about the two formats that the formulas need.
struct Format {
  int mantissaBits;
  int64_t bias;
  double magic; // adding it rounds to an integer and leaves that integer in the low bits
  double ln2Hi, ln2Lo;
};

Format formatOf(Expr x) {
  if (x.isF64())
    return {52, 1023, 6755399441055744.0, 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
  return {23, 127, 12582912.0, 0x1.62e43p-1, -0x1.05c61p-29};
}

/// x = n ln 2 + r; `shifted` is n + addend + magic, whose low bits hold n + addend.
struct Reduced {
  Expr shifted, r;
};

Reduced reduce(Expr x, int64_t addend) {
  Format format = formatOf(x);
  double magic = format.magic + static_cast<double>(addend);
  Expr shifted = fma(x, log2e, x.constant(magic));
  Expr n = shifted - magic;
  return {shifted, fma(n, -format.ln2Lo, fma(n, -format.ln2Hi, x))};
}

/// e^r on |r| <= 0.35: relative error 3.1e-9 (f32, before rounding), 8e-18 (f64).
Expr expOfReduced(Expr r, bool approximate) {
  if (r.isF64())
    return polynomial(r, {1.0, 1.0, 0.500000000000001, 0.16666666666666674, 0.0416666666665186,
                          0.008333333333321946, 0.0013888888948854216, 0.0001984126988738839,
                          2.4801486160504014e-05, 2.7557241436918804e-06, 2.763309380265927e-07,
                          2.511038819377093e-08});
  if (approximate) // 1.5e-7
    return polynomial(r, {1.0, 1.0, 0.4999898374080658, 0.1666652113199234, 0.0419190414249897,
                          0.008369367569684982});
  return polynomial(r, {1.0, 1.0, 0.4999999403953552, 0.1666651964187622, 0.04166840761899948,
                        0.008368921466171741, 0.0013814172707498074});
}

/// e^x by an instruction: x log2(e) = n + f with |f| <= 1/2 where n is a normal exponent (log2(e)
/// in two parts), and 2^f. A number kept between 0 and 1, which costs nothing, keeps n within its
/// range: beyond it f is large, and 2^f 2^n overflows or becomes denormal as it should.
Expr cudaExp(Expr x) {
  constexpr double least = -126, span = 252, magic = 12582913.0; // 2^23 * 1.5 + bias + least
  Expr part = cudaSaturate(fma(x, log2e / span, 0.5));
  Expr shifted = fma(part, span, magic);
  Expr n = shifted - (magic - least);
  Expr f = fma(x, 1.925963033500011e-08, fma(x, 1.4426950216293335, -n));
  return cudaExp2(f) * shiftLeft(shifted.bits(), formatOf(x).mantissaBits).asFloat();
}

/// e^x of x <= 0: 2^h with h the rounded x log2(e), made good by the little that h is off, of which
/// e^r = 1 + r; results below the normal range are 0.
Expr cudaExpOfNegative(Expr x) {
  x = clampBelow(x, -104.0); // -infinity would be off by NaN
  Expr h = x * log2e;
  Expr power = cudaExp2(h);
  return fma(power, fma(h, -formatOf(x).ln2Hi, x), power);
}

/// p * 2^n in two factors, so that results overflow and become denormal as they should.
Expr scaleByPower(Expr p, Expr shifted) {
  Format format = formatOf(p);
  Expr n = shifted.bits() - shifted.constant(format.magic).bits();
  Expr half = shiftRight(n, 1);
  Expr bias = n.integer(format.bias);
  Expr first = shiftLeft(half + bias, format.mantissaBits).asFloat();
  Expr second = shiftLeft(n - half + bias, format.mantissaBits).asFloat();
  return p * first * second;
}

/// (e^x - 1) / 2, accurate also near 0; the half keeps sinh and cosh from overflowing early.
Expr halfExpm1(Expr x) {
  bool wide = x.isF64();
  Format format = formatOf(x);
  x = clampBelow(clampAbove(x, wide ? 710.6 : 89.5), wide ? -38.0 : -18.0);
  Reduced reduced = reduce(x, format.bias - 2);
  Expr r = reduced.r;
  Expr p =
      wide ? polynomial(r, {0.5, 0.16666666666666666, 0.0416666666666667, 0.008333333333333345,
                            0.0013888888888869775, 0.0001984126984120605, 2.4801587355455328e-05,
                            2.755731936545272e-06, 2.755724787101912e-07, 2.505196543090223e-08,
                            2.092289649188564e-09, 1.6120660007482162e-10})
           : polynomial(r, {0.5, 0.1666666716337204, 0.04166632145643234, 0.008333218283951283,
                            0.0013943532248958945, 0.00019962896476499736});
  Expr q = fma(r * r, p, r);
  Expr quarter = shiftLeft(reduced.shifted.bits(), format.mantissaBits).asFloat(); // 2^(n-2)
  return fma(quarter, q, quarter - 0.25) * 2.0;
}

} // namespace

Expr expFormula(Expr x, Allowance allow) {
  bool wide = x.isF64();
  if (allow.isCuda && !wide)
    return allow.approximate && allow.noInfinities ? cudaExpOfNegative(x) : cudaExp(x);
  Format format = formatOf(x);
  if (!allow.noInfinities)
    x = clampAbove(x, wide ? 710.0 : 89.0);
  if (allow.approximate) {
    // At the lower clamp n = -bias, so the scale's bits are 0: the result is exactly 0.
    x = clampBelow(x, wide ? -709.1 : -88.0);
    Reduced reduced = reduce(x, format.bias);
    Expr scale = shiftLeft(reduced.shifted.bits(), format.mantissaBits).asFloat();
    return expOfReduced(reduced.r, true) * scale;
  }
  x = clampBelow(x, wide ? -746.0 : -104.5);
  Reduced reduced = reduce(x, 0);
  return scaleByPower(expOfReduced(reduced.r, false), reduced.shifted);
}

Expr exp2Formula(Expr x) {
  bool wide = x.isF64();
  Format format = formatOf(x);
  x = clampBelow(clampAbove(x, wide ? 1025.0 : 129.0), wide ? -1080.0 : -152.0);
  Expr shifted = x + format.magic;
  Expr r = (x - (shifted - format.magic)) * 0.6931471805599453;
  return scaleByPower(expOfReduced(r, false), shifted);
}

Expr expm1Formula(Expr x) { return halfExpm1(x) * 2.0; }

Expr sinhFormula(Expr x) {
  Expr half = halfExpm1(abs(x));
  Expr finite = clampAbove(half, 1e30);
  return copySign(half + finite / fma(finite, 2.0, half.constant(1.0)), x);
}

Expr coshFormula(Expr x) {
  Expr half = halfExpm1(abs(x));
  return half + (0.5 + 0.5 / fma(half, 2.0, half.constant(1.0)));
}

Expr tanhFormula(Expr x, Allowance allow) {
  if (x.isF64()) {
    Expr half = halfExpm1(clampAbove(abs(x), 20.0) * 2.0);
    return copySign(half / (half + 1.0), x);
  }
  // Odd rational function, weighted least squares fit of our own: 2.8e-7 relative. From 8.2 on it
  // is above 1, so that what is cut off there is 1: 1 - tanh^2, times a power of x in the gradient
  // of a GELU, has to vanish.
  x = clampBelow(clampAbove(x, 8.3), -8.3);
  Expr z = x * x;
  Expr p = polynomial(z, {0.9999999403953552, 0.12983372807502747, 0.0029904593247920275,
                          9.924377991410438e-06, -1.4861654129560975e-08, 2.3988016434328685e-11});
  Expr q = polynomial(z, {1.0, 0.46316686272621155, 0.02404635213315487, 0.00023786169185768813});
  // q is between 1 and some 180.
  Expr y = allow.isCuda ? x * p * cudaReciprocal(q) : x * p / q;
  return clampBelow(clampAbove(y, 1.0), -1.0);
}

} // namespace autopar::kernelmath
