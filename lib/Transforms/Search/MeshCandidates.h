// SPDX-License-Identifier: Apache-2.0
// Which meshes a search looks at.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/Mesh.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"

namespace mlir::autopar {

/// The meshes worth solving for the first `devices` of a cluster, those with few axes first: one or
/// two axes of any size, three where the innermost ones fill a node exactly, so that no axis mixes
/// link levels more than it must.
SmallVector<::autopar::Mesh> meshCandidates(const ::autopar::Cluster &cluster, int64_t devices);

} // namespace mlir::autopar
