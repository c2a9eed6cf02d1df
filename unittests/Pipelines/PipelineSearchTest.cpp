// SPDX-License-Identifier: Apache-2.0
// How much is searched where stages and micro-batches are left to cost: an engine counts.
#include "autopar/InitAll.h"
#include "autopar/Pipelines/Compile.h"
#include "autopar/Planner/SearchEngine.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <unistd.h>

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

/// y = x W1 W2 ..., with an activation behind every product.
std::string layers(int count) {
  std::string origins, arguments, body, value = "%x";
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    origins += "autopar.origin @w" + n + " : tensor<512x512xf32> in \"model.onnx\" at 0\n";
    arguments += ", %w" + n + ": tensor<512x512xf32> {autopar.name = \"w" + n +
                 "\", autopar.origin = @w" + n + "}";
    body += "  %p" + n + " = autopar.dot_general " + value + ", %w" + n +
            " contract [1] x [0] {autopar.id = \"p" + n +
            "\"} : (tensor<8192x512xf32>, tensor<512x512xf32>) -> tensor<8192x512xf32>\n"
            "  %a" +
            n + " = autopar.unary tanh %p" + n + " {autopar.id = \"a" + n +
            "\"} : tensor<8192x512xf32>\n";
    value = "%a" + n;
  }
  return origins + "func.func @main(%x: tensor<8192x512xf32> {autopar.name = \"x\"}" + arguments +
         ") -> (tensor<8192x512xf32> {autopar.name = \"y\"}) {\n" + body + "  return " + value +
         " : tensor<8192x512xf32>\n}\n";
}

/// Searches per pipeline that is built after its estimate: those have names that end in a schedule.
std::map<std::string, int> searchesOfPipelines(int64_t memoryLimit) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  CompileOptions options;
  options.input = testing::TempDir() + "pipeline-search-" + std::to_string(getpid()) + ".mlir";
  std::ofstream(options.input) << layers(8);
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
  unlink(options.input.c_str());
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
