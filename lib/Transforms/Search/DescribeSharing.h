// SPDX-License-Identifier: Apache-2.0
// How a choice of strategies shares work and state, in the terms of people who write such plans.
#pragma once

#include "autopar/Plan/Plan.h"

#include "ShardingProblem.h"

namespace mlir::autopar {

/// Fills `axes` and `state` of a belief.
void describeSharing(ShardingProblem &problem, ArrayRef<int32_t> choice,
                     ::autopar::PlanBelief &belief);

} // namespace mlir::autopar
