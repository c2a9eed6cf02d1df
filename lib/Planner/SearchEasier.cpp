// SPDX-License-Identifier: Apache-2.0
// What engines try before they search a graph itself: the graph with its blocks folded, where
// copies of them make it large, or without the memory limit.
#include "Engines.h"
#include "autopar/Planner/FoldBlocks.h"

#include <algorithm>

namespace autopar::planner {
namespace {

/// Whether the graph is well formed, and can fit as far as that is told at once.
Status checkPosed(const CostGraph &graph, const SearchOptions &options) {
  AUTOPAR_RETURN_IF_ERROR(graph.verify());
  if (graph.memoryLimitBytes <= 0 || options.leastBytes)
    return Status::ok();
  int64_t fewest = fewestBytes(graph);
  if (fewest <= graph.memoryLimitBytes)
    return Status::ok();
  return Status::badInput("no choice fits into " + std::to_string(graph.memoryLimitBytes) +
                          " bytes: the smallest strategies alone hold " + std::to_string(fewest) +
                          " bytes");
}

/// Copies are worth folding where the whole graph is too large to be searched in a second or two.
bool worthFolding(const CostGraph &graph) {
  double entries = 0;
  for (const CostEdge &edge : graph.edges)
    entries += static_cast<double>(graph.matrices[static_cast<size_t>(edge.matrix)].size());
  return !graph.blocks.empty() && (entries > 2e6 || graph.nodes.size() > 8000);
}

/// One attempt: fold and search under `limit`, and judge the expanded choice by the graph's own.
Result<std::optional<Solution>> searchFoldedOnce(BlockFolder &folder, const SearchEngine &engine,
                                                 const CostGraph &graph, int64_t limit,
                                                 const SearchOptions &options) {
  std::optional<FoldedGraph> folded = folder.fold(limit);
  if (!folded)
    return std::optional<Solution>();
  const FoldedGraph &small = *folded;
  SearchOptions inner = options;
  inner.foldBlocks = false;
  inner.onProgress = nullptr; // its choices are of another graph
  inner.start.clear();
  Result<Solution> found = engine.search(small.graph, inner);
  if (!found)
    return found.status();
  Solution solution = found.take();
  solution.choice = small.expand(solution.choice);
  Evaluation evaluation = evaluate(graph, solution.choice);
  if (!evaluation.legal || !evaluation.fits)
    return refuse(graph, evaluation, options);
  solution.timeUs = evaluation.timeUs;
  solution.peakBytes = evaluation.peakBytes;
  solution.lowerBoundUs = 0; // is one of block solutions
  solution.workUnits += small.workUnits;
  return std::optional<Solution>(std::move(solution));
}

void addBound(const BlockFolder &folder, const SearchOptions &options, Solution &solution) {
  if (options.bounds)
    solution.lowerBoundUs = std::min(folder.lowerBoundUs(), solution.timeUs);
  // What is optimal among block solutions need not be optimal.
  bool proven = solution.timeUs - solution.lowerBoundUs <= options.optimalGap * solution.timeUs;
  if (solution.stoppedBy == StopReason::Optimal && !proven)
    solution.stoppedBy = StopReason::Converged;
}

/// Without a limit far more nodes can be eliminated, and often the answer fits all the same.
std::optional<Solution> searchWithoutLimit(const SearchEngine &engine, const CostGraph &graph,
                                           const SearchOptions &options) {
  if (graph.memoryLimitBytes <= 0 || options.timeGuardSeconds > 0)
    return std::nullopt;
  CostGraph unlimited = graph;
  unlimited.memoryLimitBytes = 0;
  SearchOptions inner = options;
  inner.foldBlocks = false;
  inner.onProgress = nullptr; // what it finds need not fit
  Result<Solution> found = engine.search(unlimited, inner);
  if (!found || found->peakBytes > graph.memoryLimitBytes)
    return std::nullopt;
  return found.take();
}

/// Under a limit copies gain from choices of their own: few per block are known to the small graph.
void refineUnfolded(const CostGraph &graph, const SearchOptions &options, Solution &solution) {
  Result<Reduction> reduction = Reduction::of(graph);
  if (!reduction)
    return;
  SearchOptions inner = options;
  inner.start = solution.choice;
  inner.workUnits = std::max<int64_t>(options.workUnits / 16, 50);
  Result<Solution> refined = searchReduced(graph, *reduction, inner);
  if (!refined || refined->timeUs >= solution.timeUs)
    return;
  refined->lowerBoundUs = std::max(refined->lowerBoundUs, solution.lowerBoundUs);
  refined->workUnits += solution.workUnits;
  solution = refined.take();
}

/// Where the best choice without a limit fits, one solution per block is enough.
Result<std::optional<Solution>> searchFolded(const CostGraph &graph, const SearchOptions &options) {
  std::unique_ptr<SearchEngine> engine = makeOwnEngine();
  BlockFolder folder(graph, *engine, options);
  Result<std::optional<Solution>> found = searchFoldedOnce(folder, *engine, graph, 0, options);
  bool isTight = graph.memoryLimitBytes > 0 && !found;
  if (isTight)
    found = searchFoldedOnce(folder, *engine, graph, graph.memoryLimitBytes, options);
  if (!found || !*found)
    return found;
  addBound(folder, options, **found);
  if ((isTight || graph.memoryLimitBytes <= 0) && !options.rough)
    refineUnfolded(graph, options, **found);
  return found;
}

/// What the engine finds on an easier graph; nothing where the graph itself has to be searched.
Result<std::optional<Solution>> searchEasier(const SearchEngine &engine, const CostGraph &graph,
                                             const SearchOptions &options) {
  AUTOPAR_RETURN_IF_ERROR(checkPosed(graph, options));
  if (!options.foldBlocks || !worthFolding(graph))
    return searchWithoutLimit(engine, graph, options);
  Result<std::optional<Solution>> folded = searchFolded(graph, options);
  auto canFit = [&] {
    return graph.memoryLimitBytes <= 0 || fewestBytes(graph) <= graph.memoryLimitBytes;
  };
  if (folded || !options.unfolds || !canFit())
    return folded;
  return std::optional<Solution>();
}

} // namespace

Result<Solution> EasierFirst::search(const CostGraph &graph, const SearchOptions &options) const {
  Result<std::optional<Solution>> easier = searchEasier(*this, graph, options);
  if (!easier)
    return easier.status();
  if (*easier)
    return std::move(**easier);
  Result<Reduction> reduction = Reduction::of(graph);
  if (!reduction)
    return reduction.status();
  return searchRest(graph, *reduction, options);
}

} // namespace autopar::planner
