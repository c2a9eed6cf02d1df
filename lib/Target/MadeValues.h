// SPDX-License-Identifier: Apache-2.0
// What load leaves for all steps, told by how it is made.
#pragma once

#include "InstructionEmitter.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// Of the values that load makes of parameters alone and the steps read; nothing of those that
/// depend on who the rank is, or that come from other ranks. `kernels` holds the functions that
/// launches name, as they were before they became machine code; may be null.
std::vector<::autopar::artifact::MadeValue>
findMadeValues(exec::ProgramOp program, const ProgramIndices &indices, ModuleOp kernels);

} // namespace mlir::autopar
