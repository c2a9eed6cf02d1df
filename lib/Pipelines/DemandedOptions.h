// SPDX-License-Identifier: Apache-2.0
// Demands that are options of a pipeline too.
#pragma once

#include "autopar/Pipelines/Pipelines.h"

namespace mlir::autopar {

/// Gives `options`, a copy of `given`, what `given.constraints` demands of stages, time and mesh.
/// Returns what is left for the search: demands on shardings, and what no option can say or an
/// option says otherwise, which the search refuses.
std::string takeDemands(const AutoShardOptions &given, AutoShardOptions &options);

} // namespace mlir::autopar
