// SPDX-License-Identifier: Apache-2.0
// What recomputation believes of kernels is what evaluation believes of them.
#include "autopar/Transforms/RecomputeProblem.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A convolution with what follows it, which the backward pass reads.
constexpr const char *kStep = R"mlir(
  func.func @main(%x: tensor<8x64x64x64xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<8x64x64x64xf32> {
    %y = autopar.group %x, %w {autopar.id = "y"} : (tensor<8x64x64x64xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x64x64xf32> {
    ^bb0(%a: tensor<8x64x64x64xf32>, %b: tensor<64x64x3x3xf32>):
      %0 = autopar.convolution %a, %b {strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<8x64x64x64xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x64x64xf32>
      %1 = autopar.unary tanh %0 : tensor<8x64x64x64xf32>
      autopar.yield %1 : tensor<8x64x64x64xf32>
    }
    %z = autopar.unary exp %y {autopar.id = "y/vjp", autopar.phase = "backward"} : tensor<8x64x64x64xf32>
    return %z : tensor<8x64x64x64xf32>
  })mlir";

double timeUs(MLIRContext &context, Target target) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kStep, &context);
  ::autopar::Plan plan;
  plan.deviceCount = 1;
  plan.meshes = {::autopar::Mesh::over("m", {{"x", 1}})};
  plan.stages = {{"s", "m", {}}};
  auto problems =
      recomputeProblems(module->lookupSymbol<func::FuncOp>("main"), plan,
                        *::autopar::Cluster::preset("h100x1"), target, [](auto) { return true; });
  double us = 0;
  for (const ::autopar::RecomputeOp &op : problems->front().ops)
    us += op.timeUs;
  return us;
}

TEST(RecomputeTimes, OnGpusAConvolutionIsAKernelOfItsOwn) {
  MLIRContext context;
  context.loadDialect<AutoParDialect, func::FuncDialect>();
  EXPECT_GT(timeUs(context, Target::Cuda), 1.1 * timeUs(context, Target::Cpu));
}

} // namespace
