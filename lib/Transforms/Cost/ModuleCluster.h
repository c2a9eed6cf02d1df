// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autopar/Cost/Cluster.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// The cluster that a pass is told of (a file, presets:NAME or the JSON itself), else the one that
/// the module declares; an error that says how to give one where there is neither.
::autopar::Result<::autopar::Cluster> clusterOf(ModuleOp module, StringRef description);

} // namespace mlir::autopar
