// SPDX-License-Identifier: Apache-2.0
// A choice of strategies in a cost graph taken apart: when what happens, and what it costs.
#pragma once

#include "ShardingProblem.h"
#include "autopar/Plan/PlanDetails.h"

namespace mlir::autopar {

/// `choice` has one strategy per node of the problem. BadInput where it is not legal.
::autopar::Result<::autopar::PlanDetails> describeChoice(ShardingProblem &problem,
                                                         std::vector<int32_t> choice);

} // namespace mlir::autopar
