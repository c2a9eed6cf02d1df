// SPDX-License-Identifier: Apache-2.0
// Which operations behind a matrix product or convolution go into its group.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::autopar {

/// The operations of a contraction group, in program order: `contraction` and the steps behind it,
/// as far as no value in between has another user, but for what an activation is given, which the
/// library stores too where it `trains`. Reshapes in between are moved behind the group. Operations
/// in `claimed` belong to others; those that are taken are added to it.
SmallVector<Operation *> matchContractionEpilogue(Operation *contraction,
                                                  DenseSet<Operation *> &claimed, bool trains);

} // namespace mlir::autopar
