// SPDX-License-Identifier: Apache-2.0
// The math functions that have a form of their own for GPUs, against libm (long double): their
// approximate instructions are as wrong on the emulated GPU as they may be on a real one.
#include "EmulatedGpu.h"

#include "autopar/Conversion/KernelsToCuda.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

using namespace autopar::test;

namespace {

constexpr int64_t blocks = 64, threads = 256;
constexpr size_t points = blocks * threads;

/// y[i] = op(x[i]) of f32; `op` is the operation, or lines that make %v of %u.
std::string ptxOf(const std::string &op) {
  std::string text = R"(
    func.func @k(%x: memref<16384xf32>, %y: memref<16384xf32>) attributes {autopar.grid = array<i64: 64, 256, 0>} {
      %c256 = arith.constant 256 : index
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %first = arith.muli %block, %c256 : index
      %i = arith.addi %first, %thread : index
      %u = memref.load %x[%i] : memref<16384xf32>
      )" + (op.find("%v =") == std::string::npos ? "%v = " + op + " : f32" : op) +
                     R"(
      memref.store %v, %y[%i] : memref<16384xf32>
      return
    })";
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::gpu::GPUDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return "";
  auto ptx = autopar::compileKernelsToPtx(*module, 1);
  return mlir::succeeded(ptx) ? *ptx : "";
}

std::vector<float> run(const std::string &op, std::vector<float> x) {
  std::vector<float> y(points);
  x.resize(points);
  EmulatedGpu gpu(ptxOf(op));
  GpuLaunch shape;
  shape.blocks = blocks;
  shape.threads = threads;
  gpu.launch("k", shape, {{x.data(), points * sizeof(float)}, {y.data(), points * sizeof(float)}});
  return y;
}

double ulpsBetween(float got, long double want) {
  float nearest = static_cast<float>(want);
  if (std::isnan(want) || !std::isfinite(nearest) || !std::isfinite(got))
    return std::isnan(want) ? (std::isnan(got) ? 0 : INFINITY) : nearest == got ? 0 : INFINITY;
  int exponent = std::max(want == 0 ? -126 : std::ilogb(want), -126);
  return static_cast<double>(std::fabs(got - want) / std::ldexp(1.0L, exponent - 23));
}

/// As kernels have gelu: x/2 (1 + tanh(c x (1 + a x^2))), x/2 (1 + erf(x / sqrt 2)), and the slope
/// of the former.
const char *const geluTanh = R"(
      %half = arith.constant 0.5 : f32
      %one = arith.constant 1.0 : f32
      %a = arith.constant 0.044715 : f32
      %c = arith.constant 0.797884583 : f32
      %square = arith.mulf %u, %u : f32
      %scaled = arith.mulf %square, %a : f32
      %bend = arith.addf %scaled, %one : f32
      %bent = arith.mulf %u, %bend : f32
      %inner = arith.mulf %bent, %c : f32
      %t = math.tanh %inner : f32
      %halved = arith.mulf %u, %half : f32
      %second = arith.addf %one, %t : f32
      %v = arith.mulf %halved, %second : f32)";
const char *const gelu = R"(
      %half = arith.constant 0.5 : f32
      %one = arith.constant 1.0 : f32
      %c = arith.constant 0.707106769 : f32
      %inner = arith.mulf %u, %c : f32
      %t = math.erf %inner : f32
      %halved = arith.mulf %u, %half : f32
      %second = arith.addf %one, %t : f32
      %v = arith.mulf %halved, %second : f32)";
const char *const geluTanhSlope = R"(
      %half = arith.constant 0.5 : f32
      %one = arith.constant 1.0 : f32
      %minus = arith.constant -1.0 : f32
      %a = arith.constant 0.044715 : f32
      %a3 = arith.constant 0.134145 : f32
      %c = arith.constant 0.797884583 : f32
      %c2 = arith.constant 0.398942292 : f32
      %square = arith.mulf %u, %u : f32
      %scaled = arith.mulf %square, %a : f32
      %bend = arith.addf %scaled, %one : f32
      %bent = arith.mulf %u, %bend : f32
      %inner = arith.mulf %bent, %c : f32
      %t = math.tanh %inner : f32
      %s1 = arith.mulf %square, %a3 : f32
      %s2 = arith.addf %s1, %one : f32
      %s3 = arith.mulf %s2, %c2 : f32
      %s4 = arith.mulf %u, %s3 : f32
      %t2 = arith.mulf %t, %t : f32
      %t3 = arith.mulf %t2, %minus : f32
      %t4 = arith.addf %t3, %one : f32
      %rest = arith.mulf %s4, %t4 : f32
      %d1 = arith.mulf %t, %half : f32
      %d2 = arith.addf %d1, %half : f32
      %v = arith.addf %d2, %rest : f32)";

long double geluTanhOf(long double x) {
  return x / (1 + expl(-2 * 0.797884560802865356L * x * (1 + 0.044715L * x * x)));
}
long double geluOf(long double x) { return x / 2 * erfcl(-x * 0.707106781186547524L); }
long double geluTanhSlopeOf(long double x) {
  const long double c = 0.797884560802865356L, a = 0.044715L;
  long double s = 1 / (1 + expl(-2 * c * x * (1 + a * x * x)));
  return s + 2 * x * s * (1 - s) * c * (1 + 3 * a * x * x);
}

struct Case {
  const char *op;
  long double (*reference)(long double);
  float low, high;
  double ulps;
};

TEST(GpuMath, StaysWithinItsBounds) {
  const Case cases[] = {
      {"math.exp %u", expl, -103, 88.7f, 4},
      {"math.exp %u", expl, -1, 1, 4},
      {"math.exp %u fastmath<afn,ninf>", expl, -87.3f, 0, 7},
      {"math.exp %u fastmath<afn,ninf>", expl, -16, 0, 4},
      {"math.tanh %u", tanhl, -10, 10, 7},
      {"math.tanh %u", tanhl, -1e-3f, 1e-3f, 7},
      {"math.erf %u", erfl, -6, 6, 7},
      {"math.erf %u", erfl, -1e-3f, 1e-3f, 7},
  };
  for (const Case &c : cases) {
    std::vector<float> x(points);
    for (size_t i = 0; i < points; ++i)
      x[i] = c.low + (c.high - c.low) * (static_cast<float>(i) / (points - 1));
    std::vector<float> y = run(c.op, x);
    double worst = 0;
    for (size_t i = 0; i < points; ++i) {
      long double want = c.reference(x[i]);
      double ulps = ulpsBetween(y[i], want);
      ASSERT_TRUE(ulps <= c.ulps) << c.op << " of " << x[i] << ": " << y[i] << " for "
                                  << static_cast<double>(want) << ", " << ulps << " ulp";
      worst = std::max(worst, ulps);
    }
    if (std::getenv("AUTOPAR_PRINT_ACCURACY"))
      std::printf("%s [%g, %g]: %.2f ulp\n", c.op, c.low, c.high, worst);
  }
}

/// Of sums that cancel: within `relative` of the result, or `absolute` off.
TEST(GpuMath, GelusStayWithinTheirBounds) {
  struct {
    const char *op;
    long double (*reference)(long double);
    double relative, absolute;
  } cases[] = {{geluTanh, geluTanhOf, 1e-5, 0},
               {gelu, geluOf, 1e-3, 0},
               {gelu, geluOf, 1e-6, 1e-6},
               {geluTanhSlope, geluTanhSlopeOf, 1e-5, 1e-6}};
  for (auto &c : cases) {
    std::vector<float> x(points);
    for (size_t i = 0; i < points; ++i)
      x[i] = 11.0f * (static_cast<float>(i) / (points - 1)) - 5.5f;
    std::vector<float> y = run(c.op, x);
    for (size_t i = 0; i < points; ++i) {
      auto want = static_cast<double>(c.reference(x[i]));
      ASSERT_NEAR(y[i], want, c.absolute + c.relative * std::fabs(want)) << c.op << " of " << x[i];
    }
    std::vector<float> far = run(c.op, {40, -40, std::numeric_limits<float>::quiet_NaN(), 0});
    bool isSlope = c.op == geluTanhSlope;
    EXPECT_EQ(far[0], isSlope ? 1 : 40) << c.op;
    EXPECT_EQ(far[1], 0) << c.op;
    EXPECT_TRUE(std::isnan(far[2])) << c.op;
    EXPECT_EQ(far[3], isSlope ? 0.5 : 0) << c.op;
  }
}

/// Two instructions of the unit for special functions, no rational function, no clamps.
TEST(GpuMath, GelusAreCheap) {
  auto count = [](const std::string &ptx, const std::string &what) {
    size_t found = 0;
    for (size_t at = 0; (at = ptx.find(what, at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  struct {
    const char *op;
    size_t most;
  } cases[] = {{geluTanh, 6}, {gelu, 12}, {geluTanhSlope, 15}};
  for (auto &c : cases) {
    std::string ptx = ptxOf(c.op);
    EXPECT_EQ(count(ptx, "ex2.approx.ftz.f32"), 1u) << ptx;
    EXPECT_EQ(count(ptx, "rcp.approx.ftz.f32"), 1u) << ptx;
    EXPECT_EQ(count(ptx, "min.") + count(ptx, "max.") + count(ptx, "setp."), 0u) << ptx;
    EXPECT_LE(count(ptx, ".rn.f32"), c.most) << ptx;
  }
}

TEST(GpuMath, HasTheEdgesOfTheFunctions) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0, -0.0f, infinity, -infinity, nan, 1e-45f, -1e-45f, 1000, -1000};
  struct {
    const char *op;
    long double (*reference)(long double);
  } functions[] = {{"math.exp %u", expl}, {"math.tanh %u", tanhl}, {"math.erf %u", erfl}};
  for (auto &f : functions) {
    std::vector<float> y = run(f.op, x);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_LE(ulpsBetween(y[i], f.reference(x[i])), 8) << f.op << " of " << x[i] << ": " << y[i];
  }
  // What softmax asks for: its greatest element exactly, hidden ones not at all.
  std::vector<float> y = run("math.exp %u fastmath<afn,ninf>", {0, -infinity, -1000, nan, -3e38f});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 0);
}

/// No division with a path for rare cases, no polynomial where there is an instruction.
TEST(GpuMath, TakesInstructions) {
  for (const char *op : {"math.tanh %u", "math.erf %u"}) {
    std::string ptx = ptxOf(op);
    EXPECT_NE(ptx.find("rcp.approx.ftz.f32"), std::string::npos) << ptx;
    EXPECT_EQ(ptx.find("div."), std::string::npos) << ptx;
  }
  for (const char *op : {"math.exp %u", "math.exp %u fastmath<afn,ninf>"})
    EXPECT_NE(ptxOf(op).find("ex2.approx.ftz.f32"), std::string::npos);
  // A comparison or a maximum takes twice the time of a product.
  std::string ptx = ptxOf("math.exp %u");
  for (const char *slow : {"min.", "max.", "setp.", "selp."})
    EXPECT_EQ(ptx.find(slow), std::string::npos) << ptx;
}

} // namespace
