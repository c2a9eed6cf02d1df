// SPDX-License-Identifier: Apache-2.0
// Stands for the exact engine in builds without a solver: the registry then lists no such engine.
#include <limits>

#include "Engines.h"

namespace autopar::planner {

std::unique_ptr<SearchEngine> makeExactEngine() { return nullptr; }

int64_t exactColumns(const ReducedProblem &) { return std::numeric_limits<int64_t>::max(); }

void improveExactly(const CostGraph &, const Reduction &, const ExactLimits &,
                    const SearchOptions &, Solution &) {}

} // namespace autopar::planner
