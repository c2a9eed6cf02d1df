// SPDX-License-Identifier: Apache-2.0
// Demands on a plan as forbidden strategies of the cost graph.
#pragma once

#include "ShardingProblem.h"

#include "autopar/Plan/Constraints.h"

namespace mlir::autopar {

/// Forbids the strategies of `problem` that do not hold what is demanded of shardings and axes.
/// BadInput for axes and names that the problem does not have, and for demands that nothing can
/// hold.
::autopar::Status constrain(ShardingProblem &problem, const ::autopar::Constraints &demands);

} // namespace mlir::autopar
