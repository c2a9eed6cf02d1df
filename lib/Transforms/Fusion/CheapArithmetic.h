// SPDX-License-Identifier: Apache-2.0
// Results that may be computed where they are read, and what it takes to hold them instead.
#pragma once

#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// An operation that computes its result element by element and is cheap.
bool isCheapArithmetic(Operation *op);
/// Whether a kernel of `user` computes each element of `value` once.
bool readsOnce(Operation *user, Value value);

} // namespace mlir::autopar
