// SPDX-License-Identifier: Apache-2.0
// Lookups in tables that the step makes of fewer bytes.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Where it makes less, looks up in what a table is made of and makes what it found of that; the
/// gather is replaced and erased. Returns whether it was.
bool gatherFirst(GatherOp gather);

} // namespace mlir::autopar
