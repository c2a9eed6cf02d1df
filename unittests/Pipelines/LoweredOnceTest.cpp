// SPDX-License-Identifier: Apache-2.0
// How often the module is lowered along a plan: what was made of one for the judge, or for times of
// kernels, is taken further.
#include "LayersModel.h"

#include "autopar/InitAll.h"
#include "autopar/Pipelines/Compile.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/Pass.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;

namespace {

/// How often each pass runs on a module or a function of one.
std::map<std::string, int> passesOf(Phase stopAfter,
                                    const std::map<std::string, std::string> &demands) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  std::map<std::string, int> counts;
  std::mutex mutex;
  context.registerActionHandler([&](function_ref<void()> run, const tracing::Action &action) {
    if (auto *pass = dyn_cast<PassExecutionAction>(&action)) {
      std::lock_guard lock(mutex);
      ++counts[pass->getPass().getArgument().str()];
    }
    run();
  });
  LayersModel model(8);
  CompileOptions options;
  options.input = model.file;
  options.cluster = "presets:a100x4";
  options.train.loss = "mse(y, target)";
  options.train.optimizer = "adamw(lr=1e-3)";
  options.stopAfter = stopAfter;
  for (const auto &[key, value] : demands)
    EXPECT_TRUE(options.constraints.demand("the test", key, value).isOk());
  Result<CompileResult> result = compileModel(options, context);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return counts;
}

TEST(LoweredOnce, PeakAndKernelsOfAPlan) {
  std::map<std::string, int> counts =
      passesOf(Phase::Search, {{"stages", "2"}, {"micro-batches", "4"}});
  EXPECT_EQ(counts["autopar-form-fusion-groups"], 1);
  EXPECT_EQ(counts["autopar-evaluate-step"], 1);
}

TEST(LoweredOnce, TimedAndWritten) {
  std::map<std::string, int> counts =
      passesOf(Phase::PlanMemory, {{"stages", "2"}, {"micro-batches", "4"}});
  EXPECT_EQ(counts["autopar-form-fusion-groups"], 1);
  EXPECT_EQ(counts["autopar-evaluate-step"], 1);
  EXPECT_EQ(counts["autopar-schedule"], 1);
}

/// Two plans, of which the kernels of one are faster.
TEST(LoweredOnce, FasterOfTwo) {
  for (Phase stopAfter : {Phase::Search, Phase::PlanMemory}) {
    std::map<std::string, int> counts = passesOf(stopAfter, {{"mesh", "data=4"}});
    EXPECT_EQ(counts["autopar-form-fusion-groups"], 2);
    EXPECT_EQ(counts["autopar-evaluate-step"], 2);
  }
}

} // namespace
