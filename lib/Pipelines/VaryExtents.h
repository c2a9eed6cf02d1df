// SPDX-License-Identifier: Apache-2.0
// Extents that were bound to a range.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Import/Onnx/OnnxImporter.h"

namespace mlir::autopar {

/// Makes of a model, imported from the file `path` at the most of its ranges, one that takes any
/// extents within them (docs/rationale/VaryingExtents.md). Diagnostics say what cannot vary.
::autopar::Status varyExtents(OwningOpRef<ModuleOp> &module, StringRef path,
                              const ImportOptions &import, MLIRContext &context);

} // namespace mlir::autopar
