// SPDX-License-Identifier: Apache-2.0
// Results that are cheaper to compute wherever they are read than to store.
#pragma once

#include "mlir/IR/Block.h"

namespace mlir::autopar {

/// Whether an operation's result is cheaper to compute where it is read than to store: cheap
/// arithmetic on values that are far smaller than the result (the one-hot rows of labels).
bool isCheaperInUsers(Operation *op);

/// Gives each user of such a result, which would read each of its elements once, an operation of
/// its own, so that kernels compute it and nobody holds it.
void repeatInUsers(Block &block);

} // namespace mlir::autopar
