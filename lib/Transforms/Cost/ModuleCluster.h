// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/Mesh.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// The cluster that a pass is told of (a file, presets:NAME or the JSON itself), else the one that
/// the module declares; an error that says how to give one where there is neither.
::autopar::Result<::autopar::Cluster> clusterOf(ModuleOp module, StringRef description);

/// A mesh of the module as the cost model has it: on the devices that it names, else on the first.
::autopar::Mesh costMeshOf(MeshOp op);

} // namespace mlir::autopar
