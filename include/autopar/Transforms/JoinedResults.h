// SPDX-License-Identifier: Apache-2.0
// Several results of one operation that somebody reads as one tensor.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// The concatenation of all results of `op`, each of which it reads once, through transposes and
/// reshapes that nobody else reads; null if there is none. Who computes the results with strides
/// may write them where they are read: the gradients of query, key and value that were one product.
ConcatOp concatOfResults(Operation *op);

} // namespace mlir::autopar
