// SPDX-License-Identifier: Apache-2.0
// What parameters that keep their values are read as: made narrower at load, they lie in memory as
// what was made of them.
#pragma once

#include "mlir/IR/Value.h"

namespace mlir::autopar {

/// Whether an operation makes a parameter narrower that keeps its values: it runs once, at load.
bool narrowsAtLoad(Operation *op);

/// How many times the bytes of its type a parameter lies in memory during the step.
double restingShare(BlockArgument parameter);

} // namespace mlir::autopar
