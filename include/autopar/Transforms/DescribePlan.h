// SPDX-License-Identifier: Apache-2.0
// What a plan costs, whoever made it, by the model that the search judges with.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Plan/PlanDetails.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// `function` is as the search saw it: stages are cut, values are held across phases, nothing is
/// annotated. BadInput where the plan says what the operations cannot do.
::autopar::Result<::autopar::PlanDetails>
describePlan(func::FuncOp function, const ::autopar::Plan &plan, const ::autopar::Cluster &cluster);

} // namespace mlir::autopar
