// SPDX-License-Identifier: Apache-2.0
// The engine that needs no solver: reduces the graph and searches.
#include "Engines.h"
#include "Reduction.h"

namespace autopar::planner {
namespace {

class OwnEngine final : public EasierFirst {
public:
  std::string_view name() const override { return "own"; }

private:
  Result<Solution> searchRest(const CostGraph &graph, const Reduction &reduction,
                              const SearchOptions &options) const override {
    return searchReduced(graph, reduction, options);
  }
};

} // namespace

Status refuse(const CostGraph &graph, const Evaluation &evaluation, const SearchOptions &options) {
  int64_t fewest = fewestBytes(graph);
  bool proven = graph.memoryLimitBytes > 0 && fewest > graph.memoryLimitBytes;
  if (!evaluation.legal && !proven)
    return Status::badInput("no legal choice was found: " + evaluation.whyNot);
  std::string found = "nothing legal was found near it: " + evaluation.whyNot;
  if (evaluation.legal) {
    found = "the least found is " + std::to_string(evaluation.peakBytes) +
            " bytes (at time point " + std::to_string(evaluation.peakAt) +
            "); raise the limit or use more devices";
    if (options.leastBytes)
      *options.leastBytes = evaluation.peakBytes;
  }
  std::string limit = std::to_string(graph.memoryLimitBytes) + " bytes";
  if (!proven)
    return Status::badInput("no choice that fits into " + limit + " was found; " + found);
  return Status::badInput("no choice fits into " + limit + ": the smallest strategies alone hold " +
                          std::to_string(fewest) + " bytes; " + found);
}

std::unique_ptr<SearchEngine> makeOwnEngine() { return std::make_unique<OwnEngine>(); }

} // namespace autopar::planner
