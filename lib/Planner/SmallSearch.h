// SPDX-License-Identifier: Apache-2.0
// Depth-first branch and bound for problems that reductions left small: closes the last gap, and
// finds the one legal choice where hard edges leave few.
#pragma once

#include <cstdint>
#include <vector>

#include "ReducedProblem.h"
#include "TreeNeighbourhood.h"

namespace autopar::planner {

struct SmallSearchResult {
  bool complete = false; ///< everything was looked at: `best` is optimal, or nothing fits
  bool found = false;
  std::vector<int32_t> best;
  int64_t work = 0;
};

/// Looks for a choice that fits and costs less than `upper`, for at most `steps` elementary steps.
SmallSearchResult searchSmall(const ReducedProblem &problem, double upper, int64_t steps);

} // namespace autopar::planner
