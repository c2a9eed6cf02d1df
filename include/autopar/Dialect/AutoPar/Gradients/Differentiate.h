// SPDX-License-Identifier: Apache-2.0
// Reverse-mode differentiation of a function of whole tensors.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Builds the derivatives of `loss` (a scalar tensor of floats) by each of `values`, at the
/// builder's insertion point, which lies in the block of `loss` behind it. Each is of its value's
/// type; null where the loss does not depend on the value. Only what these derivatives need is
/// built. Operations for operand i of operation `node` are named `node/vjp.i` (the last one) and
/// `node/vjp.i/kind`; sums over the users of a value `node/vjp.sum`.
///
/// `seeds` are (value, derivative of the loss by it) pairs that are known already: the walk starts
/// there instead of at the loss, and everything between them and the loss is passed by.
///
/// Fails, with an error on the operation that stands in the way, where a path from a value to the
/// loss has no gradient, or every path has derivative zero.
FailureOr<SmallVector<Value>> differentiate(OpBuilder &builder, Value loss, ValueRange values,
                                            ArrayRef<std::pair<Value, Value>> seeds = {});

} // namespace mlir::autopar
