// SPDX-License-Identifier: Apache-2.0
// The engines that come with the planner, as their registry and each other see them.
#pragma once

#include <memory>
#include <optional>

#include "Reduction.h"
#include "autopar/Planner/SearchEngine.h"

namespace autopar::planner {

std::unique_ptr<SearchEngine> makeAutoEngine();
std::unique_ptr<SearchEngine> makeOwnEngine();
/// Null where no solver was there at build time.
std::unique_ptr<SearchEngine> makeExactEngine();

/// The own method on a graph that is already reduced.
Result<Solution> searchReduced(const CostGraph &graph, const Reduction &reduction,
                               const SearchOptions &options);

/// Columns that the exact engine would need for edges; the largest number without a solver.
int64_t exactColumns(const ReducedProblem &problem);
/// When the solver gives up: each program that it solves has so many nodes of its tree at most.
struct ExactLimits {
  double seconds = 0;
  int nodes = 0;
};
/// Improves `solution` and its bound with the solver; a no-op without one.
void improveExactly(const CostGraph &graph, const Reduction &reduction, const ExactLimits &limits,
                    const SearchOptions &options, Solution &solution);

/// An engine that looks at easier graphs first: with blocks folded where that pays, else without
/// the memory limit. Error for a graph that is malformed or cannot fit.
class EasierFirst : public SearchEngine {
public:
  Result<Solution> search(const CostGraph &graph, const SearchOptions &options) const final;

private:
  /// Of a graph that has to be searched itself.
  virtual Result<Solution> searchRest(const CostGraph &graph, const Reduction &reduction,
                                      const SearchOptions &options) const = 0;
};

/// Why a choice that breaks a rule cannot be returned.
Status refuse(const CostGraph &graph, const Evaluation &evaluation, const SearchOptions &options);

} // namespace autopar::planner
