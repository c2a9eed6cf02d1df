// SPDX-License-Identifier: Apache-2.0
// Tree moves in lanes: a fixed number of lanes search disjoint parts of the graph and meet after
// fixed work, so that any number of threads gives the same answer.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ReducedProblem.h"

namespace autopar::planner {

struct LaneRound {
  int64_t steps = 0; ///< elementary steps of all lanes together
  uint64_t seed = 1;
  int64_t number = 0; ///< of the round: borders between lanes move from one to the next
  int threads = 1;
  std::function<bool()> stop;
  std::function<void()> beside; ///< runs at the same time; may be empty
};

/// Improves `choice`; returns the work spent in lanes. `prices` per time point guide the moves.
int64_t searchLanes(const ReducedProblem &problem, const std::vector<double> &prices,
                    std::vector<int32_t> &choice, const LaneRound &round);

} // namespace autopar::planner
