// SPDX-License-Identifier: Apache-2.0
// Demands that are options of a pipeline too, and those on stages.
#pragma once

#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Plan/Constraints.h"

namespace mlir::autopar {

/// Gives `options`, a copy of `given`, what `given.constraints` demands of stages, time and mesh.
/// Returns what is left for the search: demands on shardings, and what no option can say or an
/// option says otherwise, which the search refuses.
std::string takeDemands(const AutoShardOptions &given, AutoShardOptions &options);

/// Operations whose stage somebody demands are there, and there are stages (`isCut`). A model's own
/// fields may name nodes that are folded.
::autopar::Status checkDemandedStages(ModuleOp module, const ::autopar::Constraints &demands,
                                      bool isCut);

} // namespace mlir::autopar
