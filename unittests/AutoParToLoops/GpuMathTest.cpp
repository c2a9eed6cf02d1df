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

/// y[i] = op(x[i]) of f32.
std::string ptxOf(const std::string &op) {
  std::string text = R"(
    func.func @k(%x: memref<16384xf32>, %y: memref<16384xf32>) attributes {autopar.grid = array<i64: 64, 256, 0>} {
      %c256 = arith.constant 256 : index
      %block = gpu.block_id x
      %thread = gpu.thread_id x
      %first = arith.muli %block, %c256 : index
      %i = arith.addi %first, %thread : index
      %u = memref.load %x[%i] : memref<16384xf32>
      %v = )" + op + R"( : f32
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
