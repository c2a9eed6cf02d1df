// SPDX-License-Identifier: Apache-2.0
// The machine code of a lowered module's kernels, as its artifact carries it.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Target/ArtifactEmitter.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// Fills in the target of an artifact and the code of its kernels, if it has any: an object file
/// for `targetCpu` (optimized or not), or PTX and, where there is an assembler, machine code for
/// GPUs of `cudaChip`. An error without a text has been said by diagnostics.
::autopar::Status compileKernels(ModuleOp module, const std::string &targetCpu, bool optimizes,
                                 int cudaChip, EmitOptions &emit);

} // namespace mlir::autopar
