// SPDX-License-Identifier: Apache-2.0
// What the group of a product stores beside its result, for training: the mask by which another
// product multiplies by the derivative of a relu, and the sum of what it multiplies.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::autopar {

/// Per contraction, the operations of its group in program order; and all of these but the first.
using Epilogues = SmallVector<SmallVector<Operation *>>;

/// Lets relus of groups make masks for gradients of relus that other groups have, which then read
/// these. A gradient whose relu no group has is given up.
void markForGradients(Epilogues &epilogues, DenseSet<Operation *> &claimed);
/// The sums that products make (autopar.summed_by_product). What such a product does not do beside
/// a sum is given up.
llvm::MapVector<DotGeneralOp, ReduceOp> takeSums(Block &block, Epilogues &epilogues,
                                                 DenseSet<Operation *> &claimed);

} // namespace mlir::autopar
