// SPDX-License-Identifier: Apache-2.0
// What follows a matrix product or convolution and can be applied by the library while it stores
// the result.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"

namespace mlir::autopar {

/// The operations of a contraction group, in program order: `contraction`, then a bias along the
/// last dimension of a product or the channels of a convolution, a residual of the result's shape,
/// and an activation (relu, gelu, gelu_tanh), as far as they are there, in this order, and no value
/// in between has another user. Reshapes in between are moved behind the group. A scale by a
/// constant, or the gradient of an activation that was left to the product, is taken where it is
/// all that follows. Operations in `claimed` belong to others; those that are taken are added to
/// it.
SmallVector<Operation *> matchContractionEpilogue(Operation *contraction,
                                                  DenseSet<Operation *> &claimed);

} // namespace mlir::autopar
