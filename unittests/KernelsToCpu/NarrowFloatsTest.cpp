// SPDX-License-Identifier: Apache-2.0
// f16 and bf16: every conversion is checked over all or many bit patterns against a reference in
// integer arithmetic.
#include "LoadedKernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

using namespace autopar;
using namespace autopar::test;

namespace {

/// Rounds to the nearest value with `mantissa` explicit bits and the given exponent range, ties to
/// even.
double roundTo(double x, int mantissa, int minExponent, double largest) {
  if (x == 0 || !std::isfinite(x))
    return x;
  int exponent = std::max(std::ilogb(x), minExponent);
  double unit = std::ldexp(1.0, exponent - mantissa);
  double rounded = std::nearbyint(x / unit) * unit;
  return std::fabs(rounded) > largest ? std::copysign(INFINITY, x) : std::copysign(rounded, x);
}

double toBf16(double x) { return roundTo(x, 7, -126, 0x1.fep127); }
double toF16(double x) { return roundTo(x, 10, -14, 65504.0); }

double valueOf(uint16_t bits, bool brain) {
  if (brain)
    return std::bit_cast<float>(uint32_t(bits) << 16);
  int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                     : exponent == 0 ? std::ldexp(mantissa, -24)
                                     : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/// y = trunc(x) and z = ext(y) elementwise.
std::string convertKernel(const std::string &wide, const std::string &narrow) {
  std::string w = "memref<4096x" + wide + ">", n = "memref<4096x" + narrow + ">";
  return "func.func @k(%x: " + w + ", %y: " + n + ", %z: " + w +
         ", %begin: index, %end: index) {\n" +
         "  %c1 = arith.constant 1 : index\n  scf.for %i = %begin to %end step %c1 {\n" +
         "    %v = memref.load %x[%i] : " + w + "\n    %t = arith.truncf %v : " + wide + " to " +
         narrow + "\n    memref.store %t, %y[%i] : " + n + "\n    %l = memref.load %y[%i] : " + n +
         "\n    %e = arith.extf %l : " + narrow + " to " + wide +
         "\n    memref.store %e, %z[%i] : " + w + "\n  }\n  return\n}";
}

void expectSame(double got, double want, double source) {
  if (std::isnan(want))
    EXPECT_TRUE(std::isnan(got)) << source;
  else
    EXPECT_EQ(got, want) << source;
}

template <class Wide>
void checkConversion(const char *wide, bool brain, const char *level) {
  LoadedKernels kernels(convertKernel(wide, brain ? "bf16" : "f16"), {level, 0});
  Buffer<Wide> x(4096), z(4096);
  Buffer<uint16_t> y(4096);
  for (uint64_t round = 0; round < 64; ++round) {
    for (uint64_t i = 0; i < 4096; ++i) {
      // Every narrow value, and points around and half way between neighbours.
      uint16_t bits = (round & 15) * 4096 + i;
      double value = valueOf(bits, brain);
      double next = valueOf(bits + 1, brain);
      double middle = value + (next - value) / 2;
      switch (round >> 4) {
      case 0:
        x[i] = value;
        break;
      case 1:
        x[i] = middle;
        break;
      case 2:
        x[i] = std::nextafter(static_cast<Wide>(middle), Wide(0));
        break;
      default:
        x[i] = std::nextafter(static_cast<Wide>(middle), static_cast<Wide>(next * 2));
        break;
      }
    }
    kernels.call("k", {x.data(), y.data(), z.data()}, 0, 4096);
    for (int i = 0; i < 4096; ++i)
      expectSame(z[i], brain ? toBf16(x[i]) : toF16(x[i]), x[i]);
  }
}

TEST(NarrowFloats, ConversionsRoundToNearestEven) {
  for (const char *level : {"x86-64-v3", "native"})
    for (bool brain : {false, true}) {
      checkConversion<float>("f32", brain, level);
      checkConversion<double>("f64", brain, level);
    }
}

// As masks of attention are: -infinity where a condition does not hold.
TEST(NarrowFloats, ChoicesBetweenConstantsNeedNoLibrary) {
  const char *text = R"(
    func.func @k(%x: memref<96xi64>, %y: memref<96xbf16>, %begin: index, %end: index) {
      %c1 = arith.constant 1 : index
      %least = arith.constant 40 : i64
      %zero = arith.constant 0.0 : f32
      %hidden = arith.constant 0xFF800000 : f32
      scf.for %i = %begin to %end step %c1 {
        %v = memref.load %x[%i] : memref<96xi64>
        %sees = arith.cmpi slt, %v, %least : i64
        %wide = arith.select %sees, %zero, %hidden : f32
        %narrow = arith.truncf %wide : f32 to bf16
        memref.store %narrow, %y[%i] : memref<96xbf16>
      }
      return
    })";
  std::string error;
  EXPECT_FALSE(compileText(text, {"x86-64-v4", 0}, error).empty()) << error;
  for (const char *level : {"x86-64-v3", "native"}) {
    LoadedKernels kernels(text, {level, 0});
    Buffer<int64_t> x(96);
    Buffer<uint16_t> y(96);
    for (int i = 0; i < 96; ++i)
      x[i] = i;
    kernels.call("k", {x.data(), y.data()}, 0, 96);
    for (int i = 0; i < 96; ++i)
      EXPECT_EQ(y[i], i < 40 ? 0 : 0xFF80) << level << " at " << i;
  }
}

TEST(NarrowFloats, ArithmeticRoundsOncePerOp) {
  const char *text = R"(
    func.func @k(%x: memref<65536xbf16>, %h: memref<65536xf16>, %y: memref<65536xbf16>, %z: memref<65536xf16>,
                 %n: memref<65536xi64>, %begin: index, %end: index) {
      %c1 = arith.constant 1 : index
      %b = arith.constant 0.3 : bf16
      %c = arith.constant 0.3 : f16
      scf.for %i = %begin to %end step %c1 {
        %v = memref.load %x[%i] : memref<65536xbf16>
        %m = arith.mulf %v, %b : bf16
        %s = arith.addf %m, %b : bf16
        %e = math.tanh %s : bf16
        memref.store %e, %y[%i] : memref<65536xbf16>
        %w = memref.load %h[%i] : memref<65536xf16>
        %p = arith.mulf %w, %c : f16
        %less = arith.cmpf olt, %p, %c : f16
        %r = arith.select %less, %p, %c : f16
        memref.store %r, %z[%i] : memref<65536xf16>
        %integer = arith.fptosi %r : f16 to i64
        memref.store %integer, %n[%i] : memref<65536xi64>
      }
      return
    })";
  LoadedKernels kernels(text);
  Buffer<uint16_t> x(65536), h(65536), y(65536), z(65536);
  Buffer<int64_t> n(65536);
  for (int i = 0; i < 65536; ++i)
    x[i] = h[i] = i;
  kernels.call("k", {x.data(), h.data(), y.data(), z.data(), n.data()}, 0, 65536);
  for (int i = 0; i < 65536; ++i) {
    double b = toBf16(0.3), c = toF16(0.3);
    double s = toBf16(static_cast<float>(toBf16(valueOf(i, true) * b) + b));
    double tanh = std::tanh(s), got = valueOf(y[i], true);
    if (std::isnan(tanh))
      EXPECT_TRUE(std::isnan(got));
    else // the formula's error may tip a rounding
      EXPECT_NEAR(got, tanh, std::fabs(tanh) * 0.00392 + 1e-38) << s;
    double p = toF16(valueOf(i, false) * c);
    double want = p < c ? p : c;
    EXPECT_EQ(valueOf(z[i], false), want);
    if (std::isfinite(want)) {
      EXPECT_EQ(n[i], static_cast<int64_t>(want));
    }
  }
}

} // namespace
