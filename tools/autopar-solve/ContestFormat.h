// SPDX-License-Identifier: Apache-2.0
// The public format of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism, as a door to
// the planner: problems that production compilers wrote can be solved without a model at hand.
#pragma once

#include <string>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Planner/CostGraph.h"

namespace autopar {

/// Reads a problem file, gzip or plain. BadInput names the place in the file.
Result<CostGraph> readContestProblem(const std::string &path);
/// Writes {"solution": [strategy per node]}.
Status writeContestSolution(const std::string &path, const std::vector<int32_t> &choice);

} // namespace autopar
