// SPDX-License-Identifier: Apache-2.0
// Exec attributes as the plain values of the artifact.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Dialect/Exec/IR/Exec.h"

namespace mlir::exec {

::autopar::artifact::MatmulGeometry toArtifact(MatmulGeometryAttr geometry);
::autopar::artifact::ConvolutionGeometry toArtifact(ConvolutionGeometryAttr geometry);
::autopar::artifact::AttentionGeometry toArtifact(AttentionGeometryAttr geometry);
::autopar::artifact::GroupedProductGeometry toArtifact(GroupedProductGeometryAttr geometry);

} // namespace mlir::exec
