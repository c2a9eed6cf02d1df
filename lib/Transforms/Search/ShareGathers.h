// SPDX-License-Identifier: Apache-2.0
// What both passes gather alike is gathered once for both, where some is computed again.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// Lets the backward pass of a micro-batch read what its forward pass gathered, of parameters above
/// all, where it gathers the same itself; gives the gathers that now serve both. Recomputation then
/// chooses: they wait, or one clone serves what is computed again and what is derived from it. For
/// programs in which something is computed again: elsewhere the search has chosen that nothing
/// waits.
SmallVector<Operation *> shareGathers(func::FuncOp function);

} // namespace mlir::autopar
