// SPDX-License-Identifier: Apache-2.0
// How much is searched where stages and micro-batches are left to cost: an engine counts.
#include "LayersModel.h"

#include "autopar/InitAll.h"
#include "autopar/Pipelines/Compile.h"
#include "autopar/Planner/SearchEngine.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <map>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;

namespace {

std::atomic<int> searches = 0;

class Counting final : public ::autopar::SearchEngine {
public:
  std::string_view name() const override { return "counting"; }
  Result<::autopar::Solution> search(const ::autopar::CostGraph &graph,
                                     const ::autopar::SearchOptions &options) const override {
    ++searches;
    return (*::autopar::findSearchEngine("auto"))->search(graph, options);
  }
};

/// Searches per pipeline that is built after its estimate: those have names that end in a schedule.
std::map<std::string, int> searchesOfPipelines(int64_t memoryLimit) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  CompileOptions options;
  LayersModel model(8);
  options.input = model.file;
  options.cluster = "presets:a100x4";
  options.engine = "counting";
  options.memoryLimit = memoryLimit;
  options.train.loss = "mse(y, target)";
  options.train.optimizer = "adamw(lr=1e-3)";
  options.stopAfter = Phase::Search;
  for (const char *key : {"stages", "micro-batches"})
    EXPECT_TRUE(options.constraints.demand("the test", key, "auto").isOk());
  std::map<std::string, int> counts;
  std::string last;
  int before = 0;
  options.onDetail = [&](const std::string &what) {
    for (const char *schedule : {"1f1b", "zero-bubble", "turns"})
      if (StringRef(last).ends_with(schedule))
        counts[last] = searches - before;
    last = what;
    before = searches;
  };
  Result<CompileResult> result = compileModel(options, context);
  EXPECT_TRUE(result.isOk()) << result.status().message();
  return counts;
}

TEST(PipelineSearch, WhatComesNearItsEstimateIsNotSearchedAgain) {
  ASSERT_TRUE(::autopar::registerSearchEngine(std::make_unique<Counting>()).isOk());
  // Where something has to be computed again, of which there are ways.
  std::map<std::string, int> counts = searchesOfPipelines(42000000);
  ASSERT_FALSE(counts.empty());
  int least = std::numeric_limits<int>::max();
  for (const auto &[pipeline, count] : counts)
    least = std::min(least, count);
  EXPECT_EQ(least, 1);
}

} // namespace
