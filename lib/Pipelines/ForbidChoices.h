// SPDX-License-Identifier: Apache-2.0
// What else was possible: the search again, with a choice of the plan forbidden.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Plan/PlanDetails.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// For the choices of `plan` that cost most, equal layers together: the best plan without that
/// choice, on the same mesh and stages. Each joins the plan's alternatives. A choice without which
/// nothing is found gives none. `onCandidate` is told what is tried.
std::vector<::autopar::Plan> forbidChoices(ModuleOp module, const AutoShardOptions &options,
                                           const ::autopar::Cluster &cluster, ::autopar::Plan &plan,
                                           const ::autopar::PlanDetails &details,
                                           function_ref<void(const std::string &what)> onCandidate);

} // namespace mlir::autopar
