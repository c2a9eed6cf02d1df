// SPDX-License-Identifier: Apache-2.0
// Lookups in tables that the step makes of fewer bytes.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Looks up in what a table is made of, if that is fewer bytes, and makes what it found of those;
/// the gather is replaced and erased then.
void gatherFirst(GatherOp gather);

} // namespace mlir::autopar
