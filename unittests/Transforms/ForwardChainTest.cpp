// SPDX-License-Identifier: Apache-2.0
#include "Search/ForwardChain.h"

#include "Stages/OpsOfStages.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Two parameters of 16 KiB.
constexpr const char *kChain = R"mlir(
  autopar.origin @w : tensor<64x64xf32>
  autopar.origin @v : tensor<64x64xf32>
  func.func @main(%x: tensor<8x64xf32>, %w: tensor<64x64xf32> {autopar.origin = @w}, %v: tensor<64x64xf32> {autopar.origin = @v}) -> tensor<8x64xf32> {
    %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "first"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    %1 = autopar.dot_general %0, %v contract [1] x [0] {autopar.id = "second"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
    return %1 : tensor<8x64xf32>
  })mlir";

TEST(ForwardChain, DevicesAreSharedUnderTheShareOfMemory) {
  MLIRContext context;
  context.loadDialect<AutoParDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kChain, &context);
  auto function = module->lookupSymbol<func::FuncOp>("main");
  auto cluster = *::autopar::Cluster::preset("cpux3");
  OpsOfStages ops(function);
  ForwardChain chain(function, ops.forward, cluster, /*trains=*/false);
  auto schedule = ::autopar::makeSchedule("1f1b", 2, 2, 1, false);
  auto missing = [&](int64_t memory, double share) {
    return chain.choose(memory, *schedule, MeshSizes::Any, share)->missingBytes;
  };
  EXPECT_EQ(missing(16 << 10, 1), 0);
  EXPECT_EQ(missing(8 << 10, 1), 8 << 10) << "one stage is on one device";
  EXPECT_EQ(missing(16 << 10, 0.5), 8 << 10);
}

} // namespace
