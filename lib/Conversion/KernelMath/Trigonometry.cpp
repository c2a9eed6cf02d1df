// SPDX-License-Identifier: Apache-2.0
// Circular functions and their inverses. Arguments are reduced by pi/2 in three parts (Cody and
// Waite 1980; exact products by fused multiply-add). Full accuracy up to |x| about 1e5 (f32) and
// 1e9 (f64); beyond, results stay within [-1, 1] but lose accuracy. Coefficients: Remez fits of our
// own.
#include "Formulas.h"

#include <limits>

namespace autopar::kernelmath {
namespace {

constexpr double pi = 3.14159265358979323846;
constexpr double tanEighth = 0.41421356237309503; // tan(pi / 8)

struct Quadrant {
  Expr index;        // integer, only its lowest two bits mean something
  Expr sine, cosine; // of the reduced argument
};

/// r + r^3 P(r^2) on |r| <= pi / 4.
Expr sineOfReduced(Expr r, Expr z) {
  Expr p = r.isF64()
               ? polynomial(z, {-0.16666666666666666, 0.008333333333333321, -0.00019841269841253229,
                                2.7557319213245028e-06, -2.505210466705413e-08,
                                1.6058335649723323e-10, -7.577169375845409e-13})
               : polynomial(z, {-0.1666666716337204, 0.008333329111337662, -0.00019839232845697552,
                                2.7173712169314967e-06});
  return fma(r * z, p, r);
}

/// 1 - z / 2 + z^2 Q(z).
Expr cosineOfReduced(Expr z) {
  Expr q =
      z.isF64()
          ? polynomial(z, {0.041666666666666664, -0.0013888888888888883, 2.4801587301578933e-05,
                           -2.75573192182275e-07, 2.0876754933198484e-09, -1.1470349635591756e-11,
                           4.7403229119153834e-14})
          : polynomial(z, {0.0416666679084301, -0.0013888885732740164, 2.4799845050438307e-05,
                           -2.7230800014876877e-07});
  Expr half = z * 0.5;
  Expr w = 1.0 - half;
  return w + fma(z * z, q, (1.0 - w) - half);
}

Quadrant reduce(Expr x) {
  bool wide = x.isF64();
  double magic = wide ? 6755399441055744.0 : 12582912.0;
  Expr shifted = fma(x, 2.0 / pi, x.constant(magic));
  Expr n = shifted - magic;
  Expr r = fma(n, wide ? -1.57079632679489655800 : -1.57079637050628662109375, x);
  r = fma(n, wide ? -6.123233995736766e-17 : 4.371138828673793e-08, r);
  r = fma(n, wide ? 1.4973849048591833e-33 : 1.7151245100058819e-15, r);
  r = clampBelow(clampAbove(r, 1.0), -1.0);
  Expr z = r * r;
  return {shifted.bits(), sineOfReduced(r, z), cosineOfReduced(z)};
}

/// sine if the quadrant is even, else cosine; negative in quadrants 2 and 3.
Expr byQuadrant(Expr index, Expr sine, Expr cosine) {
  Expr odd = (index & index.integer(1)) == index.integer(0);
  Expr value = select(odd, sine, cosine);
  Expr sign = shiftLeft(index & index.integer(2), index.width() - 2);
  return (value.bits() ^ sign).asFloat();
}

/// x + x^3 P(x^2) on |x| <= 1/2, given z = x^2.
Expr asinOfSmall(Expr x, Expr z) {
  Expr p = x.isF64()
               ? polynomial(z, {0.1666666666666676, 0.07499999999970633, 0.044642857174779005,
                                0.030381942699378245, 0.022372215234707674, 0.017351607401933342,
                                0.013980877814721826, 0.011398428089057127, 0.010783050741093227,
                                0.0036955304393795647, 0.021734649718078012, -0.021038574791762795,
                                0.032653956156003965})
               : polynomial(z, {0.16666659712791443, 0.07500504702329636, 0.04451679438352585,
                                0.03180931136012077, 0.014431716874241829, 0.03752725198864937});
  return fma(x * z, p, x);
}

struct ArcSine {
  Expr big;     // |x| > 1/2
  Expr partial; // asin(|x|), or asin(sqrt((1 - |x|) / 2)) where big
};

ArcSine arcSine(Expr x) {
  Expr a = abs(x);
  Expr big = a > 0.5;
  Expr z = select(big, (1.0 - a) * 0.5, a * a);
  Expr s = select(big, sqrt(z), a);
  return {big, asinOfSmall(s, z)};
}

/// atan on [0, tan(pi / 8)].
Expr atanOfSmall(Expr t) {
  Expr z = t * t;
  Expr p = t.isF64()
               ? polynomial(z, {-0.333333333333332, 0.19999999999953164, -0.14285714280157588,
                                0.11111110781687018, -0.09090897711295566, 0.07692059461135446,
                                -0.0666309620681329, 0.058478369051540253, -0.05039087286271712,
                                0.03805946350423047, -0.017902050936506122})
               : polynomial(z, {-0.33333316445350647, 0.19998471438884735, -0.14243526756763458,
                                0.10593720525503159, -0.060778889805078506});
  return fma(t * z, p, t);
}

/// atan(numerator / denominator) for 0 <= numerator, denominator; the quotient is never formed when
/// large.
Expr atanOfQuotient(Expr numerator, Expr denominator) {
  Expr large = numerator * tanEighth > denominator;
  Expr middle = numerator > denominator * tanEighth;
  Expr t = select(large, -denominator, select(middle, numerator - denominator, numerator)) /
           select(large, numerator, select(middle, numerator + denominator, denominator));
  Expr zero = t.constant(0.0);
  Expr offset = select(large, t.constant(pi / 2), select(middle, t.constant(pi / 4), zero));
  double lowHalf = t.isF64() ? 6.123233995736766e-17 : -4.371138828673793e-08;
  Expr low = select(large, t.constant(lowHalf), select(middle, t.constant(lowHalf / 2), zero));
  return offset + (atanOfSmall(t) + low);
}

} // namespace

Expr sinFormula(Expr x) {
  Quadrant quadrant = reduce(x);
  return byQuadrant(quadrant.index, quadrant.sine, quadrant.cosine);
}

Expr cosFormula(Expr x) {
  Quadrant quadrant = reduce(x);
  return byQuadrant(quadrant.index + quadrant.index.integer(1), quadrant.sine, quadrant.cosine);
}

Expr tanFormula(Expr x) {
  Quadrant quadrant = reduce(x);
  Expr even = (quadrant.index & quadrant.index.integer(1)) == quadrant.index.integer(0);
  Expr numerator = select(even, quadrant.sine, -quadrant.cosine);
  return numerator / select(even, quadrant.cosine, quadrant.sine);
}

Expr asinFormula(Expr x) {
  ArcSine arc = arcSine(x);
  double low = x.isF64() ? 6.123233995736766e-17 : -4.371138828673793e-08;
  Expr complement = pi / 2 - (arc.partial * 2.0 - low);
  return copySign(select(arc.big, complement, arc.partial), x);
}

Expr acosFormula(Expr x) {
  ArcSine arc = arcSine(x);
  double low = x.isF64() ? 6.123233995736766e-17 : -4.371138828673793e-08;
  Expr twice = arc.partial * 2.0;
  Expr negative = x < 0.0;
  Expr outer = select(negative, pi - (twice - 2 * low), twice);
  Expr inner = pi / 2 - (copySign(arc.partial, x) - low);
  return select(arc.big, outer, inner);
}

Expr atanFormula(Expr x) { return copySign(atanOfQuotient(abs(x), x.constant(1.0)), x); }

Expr atan2Formula(Expr y, Expr x) {
  double infinity = std::numeric_limits<double>::infinity();
  Expr ay = abs(y), ax = abs(x);
  // Huge and tiny pairs are brought to where sums and products neither overflow nor vanish; equal
  // infinities become equal numbers.
  Expr bothInfinite = (ay == infinity) & (ax == infinity);
  Expr bothZero = (ay == 0.0) & (ax == 0.0);
  double top = y.isF64() ? 1e300 : 1e37, bottom = y.isF64() ? 1e-290 : 1e-30;
  Expr scaleDown = (ay > top) | (ax > top);
  Expr scaleUp = (ay < bottom) & (ax < bottom);
  Expr factor = select(scaleDown, y.constant(y.isF64() ? 0x1p-60 : 0x1p-10),
                       select(scaleUp, y.constant(y.isF64() ? 0x1p60 : 0x1p30), y.constant(1.0)));
  Expr one = y.constant(1.0);
  ay = select(bothInfinite, one, ay * factor);
  ax = select(bothInfinite | bothZero, one, ax * factor);
  Expr angle = atanOfQuotient(ay, ax);
  double low = y.isF64() ? 2 * 6.123233995736766e-17 : -2 * 4.371138828673793e-08;
  Expr negative = x.bits() < x.bits().integer(0);
  angle = select(negative, pi - (angle - low), angle);
  Expr undefined = x.compare(mlir::arith::CmpFPredicate::UNO, y);
  return select(undefined, x + y, copySign(angle, y));
}

} // namespace autopar::kernelmath
