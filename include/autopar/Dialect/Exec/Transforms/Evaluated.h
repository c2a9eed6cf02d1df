// SPDX-License-Identifier: Apache-2.0
// What of a training step an evaluation runs.
#pragma once

#include "autopar/Dialect/Exec/IR/Exec.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::exec {

using Instructions = llvm::SmallSetVector<Operation *, 32>;

/// The instructions that the loss of a program needs; none where it has no loss.
Instructions evaluatedInstructions(ProgramOp program);

} // namespace mlir::exec
