// SPDX-License-Identifier: Apache-2.0
// Every math function against libm (long double) over dense sweeps and edge values. Run with
// AUTOPAR_PRINT_ACCURACY=1 in the environment to see the measured errors as a table.
#include "LoadedKernels.h"

#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <set>

using namespace autopar;
using namespace autopar::test;

namespace {

constexpr size_t points = 1 << 15;
using Reference = std::function<long double(long double, long double)>;

/// One function, the range it is swept over and its largest permitted errors in units in the last
/// place (or absolute, where `absolute` is not 0 and larger).
struct Case {
  const char *op;
  int operands;
  Reference reference;
  double low, high;
  double ulpF32, ulpF64;
  double absoluteF32 = 0;
  double low2 = 0, high2 = 0;
};

#define UNARY(f) [](long double x, long double) -> long double { return f(x); }

const Case cases[] = {
    {"math.exp", 1, UNARY(expl), -110, 92, 1.5, 1.5},
    {"math.exp", 1, UNARY(expl), -750, 712, 1.5, 1.5},
    {"math.exp2", 1, UNARY(exp2l), -160, 130, 1.5, 1.5},
    {"math.expm1", 1, UNARY(expm1l), -20, 90, 2, 2},
    {"math.expm1", 1, UNARY(expm1l), -0.7, 0.7, 2, 2},
    {"math.log", 1, UNARY(logl), 0, 10, 1.5, 1.5},
    {"math.log", 1, UNARY(logl), 0, 3e38, 1.5, 1.5},
    {"math.log", 1, UNARY(logl), 0, 1e-38, 1.5, 1.5},
    {"math.log2", 1, UNARY(log2l), 0, 100, 2.5, 2.5},
    {"math.log10", 1, UNARY(log10l), 0, 100, 2.5, 2.5},
    {"math.log1p", 1, UNARY(log1pl), -0.999, 3, 2, 2},
    {"math.log1p", 1, UNARY(log1pl), -1e-6, 1e-6, 2, 2},
    {"math.sin", 1, UNARY(sinl), -20, 20, 1.5, 1.5},
    {"math.sin", 1, UNARY(sinl), -1e5, 1e5, 1.5, 1.5},
    {"math.cos", 1, UNARY(cosl), -20, 20, 1.5, 1.5},
    {"math.cos", 1, UNARY(cosl), -1e5, 1e5, 1.5, 1.5},
    {"math.tan", 1, UNARY(tanl), -20, 20, 3, 3},
    {"math.asin", 1, UNARY(asinl), -1, 1, 2.5, 2.5},
    {"math.acos", 1, UNARY(acosl), -1, 1, 2.5, 2.5},
    {"math.atan", 1, UNARY(atanl), -30, 30, 2.5, 2.5},
    {"math.atan", 1, UNARY(atanl), -1e5, 1e5, 2.5, 2.5},
    {"math.sinh", 1, UNARY(sinhl), -90, 90, 3, 3},
    {"math.sinh", 1, UNARY(sinhl), -1, 1, 3, 3},
    {"math.cosh", 1, UNARY(coshl), -90, 90, 3, 3},
    {"math.tanh", 1, UNARY(tanhl), -10, 10, 6, 3, 1e-6},
    {"math.tanh", 1, UNARY(tanhl), -1e-3, 1e-3, 6, 3, 0},
    {"math.asinh", 1, UNARY(asinhl), -100, 100, 4, 4},
    {"math.asinh", 1, UNARY(asinhl), -1e30, 1e30, 4, 4},
    {"math.acosh", 1, UNARY(acoshl), 1, 100, 4, 4},
    {"math.atanh", 1, UNARY(atanhl), -1, 1, 4, 4},
    {"math.erf", 1, UNARY(erfl), -6, 6, 7, 3, 1e-6},
    {"math.erf", 1, UNARY(erfl), -1e-3, 1e-3, 7, 3, 0},
    {"math.erfc", 1, UNARY(erfcl), -6, 9, 6, 8},
    {"math.erfc", 1, UNARY(erfcl), 0, 26, 6, 8},
    {"math.cbrt", 1, UNARY(cbrtl), -100, 100, 2, 2},
    {"math.sqrt", 1, UNARY(sqrtl), 0, 100, 0.51, 0.51},
    {"math.rsqrt", 1, UNARY(1 / sqrtl), 0, 100, 1.5, 1.5},
    {"math.round", 1, UNARY(roundl), -100, 100, 0, 0},
    {"math.roundeven", 1, UNARY(nearbyintl), -100, 100, 0, 0},
    {"math.floor", 1, UNARY(floorl), -100, 100, 0, 0},
    {"math.ceil", 1, UNARY(ceill), -100, 100, 0, 0},
    {"math.trunc", 1, UNARY(truncl), -100, 100, 0, 0},
    {"math.absf", 1, UNARY(fabsl), -100, 100, 0, 0},
    {"math.powf", 2, powl, 0, 10, 1, 2, 0, -20, 20},
    {"math.powf", 2, powl, 0, 1e30, 1, 2, 0, -3, 3},
    {"math.powf", 2, powl, 0.9, 1.1, 1, 2, 0, -3000, 3000},
    {"math.atan2", 2, atan2l, -10, 10, 3, 3, 0, -10, 10},
    {"math.copysign", 2, copysignl, -10, 10, 0, 0, 0, -10, 10},
    {"arith.remf", 2, fmodl, -100, 100, 0, 0, 0, -7, 7},
};

template <class T>
struct Names;
template <>
struct Names<float> {
  static constexpr const char *type = "f32";
};
template <>
struct Names<double> {
  static constexpr const char *type = "f64";
};

/// "math.exp" becomes the kernel "math_exp".
std::string kernelName(std::string op) {
  op[op.find('.')] = '_';
  return op;
}

/// y[i] = op(a[i]) or op(a[i], b[i]).
std::string mapKernel(const std::string &op, int operands, const std::string &type) {
  std::string buffer = "memref<" + std::to_string(points) + "x" + type + ">";
  std::string text =
      "func.func @" + kernelName(op) + "(%a: " + buffer + ", %b: " + buffer + ", %y: " + buffer;
  text += ", %begin: index, %end: index) {\n  %c1 = arith.constant 1 : index\n";
  text += "  scf.for %i = %begin to %end step %c1 {\n    %u = memref.load %a[%i] : " + buffer;
  text += "\n    %v = memref.load %b[%i] : " + buffer + "\n    %r = " + op +
          (operands == 1 ? " %u" : " %u, %v");
  return text + " : " + type + "\n    memref.store %r, %y[%i] : " + buffer + "\n  }\n  return\n}\n";
}

/// One kernel for every op of `cases`.
std::string allKernels(const std::string &type) {
  std::string text;
  std::set<std::string> done;
  for (const Case &test : cases)
    if (done.insert(test.op).second)
      text += mapKernel(test.op, test.operands, type);
  return text;
}

/// allKernels for this machine, compiled once.
template <class T>
LoadedKernels &library() {
  static LoadedKernels kernels(allKernels(Names<T>::type));
  return kernels;
}

/// Distance in units in the last place of the wanted result, denormals included.
template <class T>
double errorInUlps(T got, long double want) {
  T nearest = static_cast<T>(want);
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(got)) {
    if (nearest == got)
      return 0;
    // One side overflowed: fine at the very edge of the range.
    T finite = std::isinf(got) ? nearest : got;
    return std::fabs(finite) >= std::numeric_limits<T>::max() * T(0.9999999) ? 1 : INFINITY;
  }
  int exponent = want == 0 ? std::numeric_limits<T>::min_exponent : std::ilogb(want);
  int digits = std::numeric_limits<T>::digits;
  long double unit =
      std::ldexp(1.0L, std::max(exponent + 1, std::numeric_limits<T>::min_exponent) - digits);
  return static_cast<double>(std::fabs(got - want) / unit);
}

template <class T>
void sweep(const Case &test) {
  bool wide = sizeof(T) == 8;
  Buffer<T> a(points), b(points), y(points);
  std::mt19937_64 random(7);
  double worst = 0, worstAbsolute = 0, where = 0;
  std::uniform_real_distribution<double> unit(0, 1);
  for (size_t i = 0; i < points; ++i) {
    a[i] = test.low + (test.high - test.low) * (i / double(points - 1));
    if (i % 4 == 1) // small values too
      a[i] *= std::exp2(-20 * unit(random));
    b[i] = test.low2 + (test.high2 - test.low2) * unit(random);
    a[i] = std::min<T>(std::max<T>(a[i], test.low), test.high);
  }
  library<T>().call(kernelName(test.op).c_str(), {a.data(), b.data(), y.data()}, 0, points);
  double limit = wide ? test.ulpF64 : test.ulpF32;
  for (size_t i = 0; i < points; ++i) {
    long double want = test.reference(a[i], b[i]);
    double absolute = std::fabs(static_cast<double>(y[i] - want));
    double ulps = errorInUlps<T>(y[i], want);
    bool good = ulps <= limit || (!wide && test.absoluteF32 > 0 && absolute <= test.absoluteF32);
    EXPECT_TRUE(good) << test.op << " " << Names<T>::type << " at " << a[i] << ", " << b[i] << ": "
                      << y[i] << " for " << want << ", " << ulps << " ulp";
    if (!good)
      return;
    if (ulps > worst)
      worst = ulps, where = a[i];
    if (std::isfinite(y[i]) && std::isfinite(want))
      worstAbsolute = std::max(worstAbsolute, absolute);
  }
  if (std::getenv("AUTOPAR_PRINT_ACCURACY"))
    std::printf("%-14s %s [%g, %g]: %.2f ulp (at %g), %.2g absolute\n", test.op, Names<T>::type,
                test.low, test.high, worst, where, worstAbsolute);
}

TEST(MathAccuracy, SweepF32) {
  for (const Case &test : cases)
    sweep<float>(test);
}

TEST(MathAccuracy, SweepF64) {
  for (const Case &test : cases)
    sweep<double>(test);
}

TEST(MathAccuracy, LowestLevelNeedsNoLibrary) {
  for (const char *type : {"f32", "f64"}) {
    std::string error;
    EXPECT_FALSE(compileText(allKernels(type), {"x86-64-v3", 0}, error).empty()) << error;
  }
}

template <class T>
void checkEdges(const char *op, int operands, Reference reference, double tolerance) {
  using Limits = std::numeric_limits<T>;
  const T inf = Limits::infinity(), nan = Limits::quiet_NaN();
  const std::vector<T> values = {T(0),
                                 T(-0.0),
                                 inf,
                                 -inf,
                                 nan,
                                 Limits::denorm_min(),
                                 -Limits::denorm_min(),
                                 T(1),
                                 T(-1),
                                 T(2),
                                 T(-2),
                                 T(3),
                                 T(-3),
                                 T(0.5),
                                 T(-0.5),
                                 T(2.5),
                                 T(-2.5),
                                 Limits::min(),
                                 -Limits::min(),
                                 Limits::max(),
                                 -Limits::max(),
                                 T(1000),
                                 T(-1000)};
  size_t count = values.size() * (operands == 1 ? 1 : values.size());
  Buffer<T> a(count), b(count), y(count);
  for (size_t i = 0; i < count; ++i)
    a[i] = values[i % values.size()], b[i] = values[i / values.size()];
  library<T>().call(kernelName(op).c_str(), {a.data(), b.data(), y.data()}, 0, count);
  for (size_t i = 0; i < count; ++i) {
    // The reference rounds to the type, so that overflow and underflow agree.
    T want = static_cast<T>(reference(a[i], b[i]));
    EXPECT_TRUE(errorInUlps<T>(y[i], want) <= tolerance)
        << op << " " << Names<T>::type << " (" << a[i] << ", " << b[i] << ") = " << y[i]
        << ", wanted " << want;
  }
}

TEST(MathAccuracy, EdgeValues) {
  struct Edge {
    const char *op;
    int operands;
    Reference reference;
  };
  const Edge edges[] = {
      {"math.exp", 1, UNARY(expl)},     {"math.exp2", 1, UNARY(exp2l)},
      {"math.expm1", 1, UNARY(expm1l)}, {"math.log", 1, UNARY(logl)},
      {"math.log2", 1, UNARY(log2l)},   {"math.log10", 1, UNARY(log10l)},
      {"math.log1p", 1, UNARY(log1pl)}, {"math.sinh", 1, UNARY(sinhl)},
      {"math.cosh", 1, UNARY(coshl)},   {"math.tanh", 1, UNARY(tanhl)},
      {"math.asinh", 1, UNARY(asinhl)}, {"math.acosh", 1, UNARY(acoshl)},
      {"math.atanh", 1, UNARY(atanhl)}, {"math.asin", 1, UNARY(asinl)},
      {"math.acos", 1, UNARY(acosl)},   {"math.atan", 1, UNARY(atanl)},
      {"math.erf", 1, UNARY(erfl)},     {"math.erfc", 1, UNARY(erfcl)},
      {"math.cbrt", 1, UNARY(cbrtl)},   {"math.sqrt", 1, UNARY(sqrtl)},
      {"math.round", 1, UNARY(roundl)}, {"math.powf", 2, powl},
      {"math.atan2", 2, atan2l},
  };
  for (const Edge &edge : edges) {
    checkEdges<float>(edge.op, edge.operands, edge.reference, 8);
    checkEdges<double>(edge.op, edge.operands, edge.reference, 8);
  }
}

TEST(MathAccuracy, CircularFunctionsOfHugeValuesStayBounded) {
  for (const char *op : {"math.sin", "math.cos"}) {
    Buffer<float> a(64), b(64), y(64);
    for (int i = 0; i < 64; ++i)
      a[i] = std::ldexp(1.7f, i * 2);
    a[63] = INFINITY;
    library<float>().call(kernelName(op).c_str(), {a.data(), b.data(), y.data()}, 0, 64);
    for (int i = 0; i < 63; ++i)
      EXPECT_LE(std::fabs(y[i]), 1.0f) << op << a[i];
    EXPECT_TRUE(std::isnan(y[63]));
  }
}

/// The cheap forms keep the promises of the header.
TEST(MathAccuracy, ApproximateForms) {
  LoadedKernels kernels(R"(
    func.func @k(%a: memref<4096xf32>, %y: memref<4096xf32>, %z: memref<4096xf32>, %begin: index, %end: index) {
      %c1 = arith.constant 1 : index
      scf.for %i = %begin to %end step %c1 {
        %u = memref.load %a[%i] : memref<4096xf32>
        %e = math.exp %u fastmath<afn> : f32
        memref.store %e, %y[%i] : memref<4096xf32>
        %l = math.log %u fastmath<afn> : f32
        memref.store %l, %z[%i] : memref<4096xf32>
      }
      return
    })");
  Buffer<float> a(4096), y(4096), z(4096);
  for (int i = 0; i < 4096; ++i)
    a[i] = -87.0f + i * (175.0f / 4095);
  a[0] = -INFINITY, a[1] = INFINITY, a[2] = NAN, a[3] = -1000, a[4] = 1000;
  kernels.call("k", {a.data(), y.data(), z.data()}, 0, 4096);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.0f);
  EXPECT_EQ(y[4], INFINITY);
  for (int i = 5; i < 4096; ++i) {
    EXPECT_LE(errorInUlps<float>(y[i], expl(a[i])), 3) << a[i];
    if (a[i] > 0)
      EXPECT_LE(errorInUlps<float>(z[i], logl(a[i])), 2) << a[i];
  }
}

} // namespace
