// SPDX-License-Identifier: Apache-2.0
// A problem that counts anew what is waited for is the one that was made so.
#include "Search/KeptProblems.h"
#include "Stages/StagePhases.h"

#include "autopar/InitAll.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A parameter that both passes of a product gather.
constexpr const char *kStep = R"mlir(
  autopar.origin @w : tensor<1024x1024xf32>
  func.func @main(%x: tensor<64x1024xf32> {autopar.name = "x"},
                  %w: tensor<1024x1024xf32> {autopar.donated, autopar.name = "w", autopar.origin = @w})
      -> (tensor<1024x1024xf32> {autopar.name = "w"}) {
    %held = autopar.hold %w {autopar.id = "w/forward"} : tensor<1024x1024xf32>
    %y = autopar.dot_general %x, %held contract [1] x [0] {autopar.id = "fc"} : (tensor<64x1024xf32>, tensor<1024x1024xf32>) -> tensor<64x1024xf32>
    %dw = autopar.dot_general %x, %y contract [0] x [0] {autopar.id = "fc/vjp.1", autopar.phase = "backward"} : (tensor<64x1024xf32>, tensor<64x1024xf32>) -> tensor<1024x1024xf32>
    %next = autopar.binary sub %w, %dw {autopar.id = "w/update", autopar.phase = "update"} : tensor<1024x1024xf32>
    return %next : tensor<1024x1024xf32>
  })mlir";

class ShardingProblemTest : public testing::Test {
protected:
  ShardingProblemTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(kStep, &context);
    function = module->lookupSymbol<func::FuncOp>("main");
    cluster = *::autopar::Cluster::load("presets:h100x8");
  }

  std::unique_ptr<ShardingProblem> problem(const StepOutline &outline, double waitedShare) {
    return std::make_unique<ShardingProblem>(
        outline, *scheduleOf(function),
        std::vector<::autopar::Mesh>{::autopar::Mesh::over("mesh", {{"x", 4}, {"y", 2}})}, cluster,
        1, 1, nullptr, waitedShare);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  ::autopar::Cluster cluster;
};

TEST_F(ShardingProblemTest, CountsAnew) {
  StepOutline outline(function);
  std::unique_ptr<ShardingProblem> kept = problem(outline, 0), fresh = problem(outline, 0);
  EXPECT_LT(kept->waitedShare(), 1);
  for (double share : {0.25, 1.0, 0.0}) {
    kept->wait(share);
    std::unique_ptr<ShardingProblem> made = problem(outline, share);
    EXPECT_EQ(kept->waitedShare(), made->waitedShare());
    EXPECT_EQ(kept->graph().matrices, made->graph().matrices);
    EXPECT_EQ(kept->graph().matrices == fresh->graph().matrices, share == 0);
  }
}

TEST_F(ShardingProblemTest, KeptForTheSameOnly) {
  KeptProblems kept;
  kept.of(function, cluster, "one mesh").problems.emplace_back();
  EXPECT_EQ(kept.of(function, cluster, "one mesh").problems.size(), 1u);
  EXPECT_TRUE(kept.of(function, cluster, "another mesh").problems.empty());
}

} // namespace
