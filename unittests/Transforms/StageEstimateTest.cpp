// SPDX-License-Identifier: Apache-2.0
// What an estimate found of meshes serves the next one, whatever each of them has to beat.
#include "autopar/Transforms/StageEstimate.h"

#include "autopar/InitAll.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::autopar;

namespace {

class SolvedMeshesTest : public testing::Test {
protected:
  SolvedMeshesTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    module = parseSourceString<ModuleOp>(R"mlir(
      autopar.origin @w : tensor<64x64xf32>
      autopar.origin @v : tensor<64x64xf32>
      func.func @main(%x: tensor<8x64xf32> {autopar.name = "x"}, %w: tensor<64x64xf32> {autopar.name = "w", autopar.origin = @w}, %v: tensor<64x64xf32> {autopar.name = "v", autopar.origin = @v}) -> tensor<8x64xf32> {
        %0 = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "first"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
        %1 = autopar.dot_general %0, %v contract [1] x [0] {autopar.id = "second"} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
        return %1 : tensor<8x64xf32>
      })mlir",
                                         &context);
    cluster = *::autopar::Cluster::load("presets:cpux4");
  }

  ::autopar::Result<StageEstimate> estimate(const StageEstimateOptions &options) {
    return estimateStages(module->lookupSymbol<func::FuncOp>("main"), cluster, options);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  ::autopar::Cluster cluster;
};

TEST_F(SolvedMeshesTest, ServeAnotherBound) {
  StageEstimateOptions options;
  auto free = estimate(options);
  ASSERT_TRUE(free) << free.status().message();
  // Less memory than that takes, so that meshes are also searched under the limit.
  options.memoryLimit = free->plan.believed.peakBytes.front() - 1;
  auto fresh = estimate(options);
  ASSERT_TRUE(fresh) << fresh.status().message();
  EXPECT_GT(fresh->stepUs, free->stepUs);

  options.solved = makeSolvedMeshes();
  options.boundUs = free->stepUs;
  EXPECT_FALSE(estimate(options));
  options.boundUs = 1.0001 * free->stepUs; // the limit is asked of one mesh, in vain
  EXPECT_FALSE(estimate(options));
  options.boundUs = std::numeric_limits<double>::infinity();
  for (int again = 0; again < 2; ++again) {
    auto found = estimate(options);
    ASSERT_TRUE(found) << found.status().message();
    EXPECT_EQ(found->stepUs, fresh->stepUs);
    EXPECT_EQ(found->plan.toJson(), fresh->plan.toJson());
  }
}

/// The second stage is on devices that are a hundred times as slow.
TEST_F(SolvedMeshesTest, AGivenMeshIsOnTheDevicesOfItsStage) {
  StageEstimateOptions options;
  options.stages = 2;
  ASSERT_TRUE(options.constraints.demand("test", "mesh", "t=2").isOk());
  auto fast = estimate(options);
  ASSERT_TRUE(fast) << fast.status().message();
  ::autopar::DeviceType slow = cluster.deviceTypes.front();
  slow.name = "slow";
  slow.memoryBytesPerSecond /= 100;
  for (auto &[type, peak] : slow.peakFlopsPerSecond)
    peak /= 100;
  cluster.deviceTypes.push_back(slow);
  cluster.nodes.front().devicesPerNode = 2;
  cluster.levels.push_back(cluster.levels.front());
  cluster.nodes.push_back(cluster.nodes.front());
  cluster.nodes.back().deviceType = slow.name;
  auto mixed = estimate(options);
  ASSERT_TRUE(mixed) << mixed.status().message();
  EXPECT_GT(mixed->stepUs, 10 * fast->stepUs);
}

} // namespace
