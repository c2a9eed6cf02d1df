// SPDX-License-Identifier: Apache-2.0
// erf and erfc. erf in f32 is one odd rational function (gelu depends on its speed); the others use
// erfc(x) = exp(-x^2) h(t) / (1 + 2x) with t = (x - k) / (x + k), the substitution of Shepherd and
// Laframboise (1981). Coefficients: Remez and weighted least squares fits of our own.
#include "Formulas.h"

namespace autopar::kernelmath {
namespace {

/// exp(-x^2), where the rounding error of the square is made good.
Expr expOfMinusSquare(Expr x) {
  Expr square = x * x;
  Expr lost = fma(x, x, -square);
  Expr e = expFormula(-square);
  return fma(e, -lost, e);
}

/// erfc of a >= 0 (f64: a >= 0.9).
Expr erfcOfPositive(Expr a) {
  bool wide = a.isF64();
  a = clampAbove(a, wide ? 27.5 : 10.1);
  double k = wide ? 3.0 : 2.0;
  Expr t = (a - k) / (a + k);
  Expr h =
      wide
          ? polynomial(t, {1.2530080582697296,      -0.1356211061245812,     -0.04756229435345129,
                           0.129645158702764,       -0.11927366341526534,    0.06830802734384352,
                           -0.02377051491995297,    0.0025293918188733,      0.0018886903783471097,
                           -0.0007798323083191721,  -0.00010515995443708709, 0.00012509965827946952,
                           4.950201603509639e-06,   -2.0102262248860857e-05, -7.332861164248254e-07,
                           3.4784119066332387e-06,  3.5808842424215105e-07,  -6.294786272969963e-07,
                           -1.3705025986820963e-07, 1.1650028162658199e-07,  3.023958150534986e-08,
                           -1.9367602168247475e-08})
          : polynomial(t, {1.2769783735275269, -0.0927639827132225, -0.16603142023086548,
                           0.16405534744262695, -0.0542043000459671, -0.00805987510830164,
                           0.008631682954728603, 0.001313523156568408, -0.0012299298541620374,
                           -0.0004005783994216472});
  return expOfMinusSquare(a) * (h / fma(a, 2.0, a.constant(1.0)));
}

/// erf on |x| <= 1 in f64.
Expr erfOfSmall(Expr x) {
  return x *
         polynomial(x * x, {1.1283791670955126, -0.3761263890318375, 0.11283791670954858,
                            -0.02686617064507296, 0.005223977624781354, -0.0008548326978764345,
                            0.00012055331037525277, -1.4925593518170004e-05, 1.6460972945979838e-06,
                            -1.6350026112082572e-07, 1.4657883029857703e-08, -1.136566885559515e-09,
                            5.945252686725216e-11});
}

} // namespace

Expr erfFormula(Expr x, Allowance allow) {
  if (x.isF64()) {
    Expr a = abs(x);
    return select(a < 1.0, erfOfSmall(x), copySign(1.0 - erfcOfPositive(a), x));
  }
  // 3.4e-7 relative.
  x = clampBelow(clampAbove(x, 4.0), -4.0);
  Expr z = x * x;
  Expr p = polynomial(z, {1.1283791065216064, 0.1942606419324875, 0.05319835618138313,
                          0.003915106877684593, 0.0002854728081729263, 1.9834910744975787e-06});
  Expr q = polynomial(z, {1.0, 0.5054911971092224, 0.11564794182777405, 0.01526990719139576,
                          0.0011936784721910954, 3.7434190744534135e-05});
  // q is between 1 and some 20.
  return allow.isCuda ? x * p * cudaReciprocal(q) : x * p / q;
}

Expr erfcFormula(Expr x) {
  Expr a = abs(x);
  Expr positive = erfcOfPositive(a);
  Expr result = select(x < 0.0, 2.0 - positive, positive);
  return x.isF64() ? select(a < 1.0, 1.0 - erfOfSmall(x), result) : result;
}

} // namespace autopar::kernelmath
