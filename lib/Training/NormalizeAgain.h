// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Block.h"

namespace mlir::autopar {

/// Has the derivatives that stand behind `lastForward` read normalizations of the forward pass as
/// computed again from their inputs, where a derivative reads the input anyway.
void normalizeAgain(Block &block, Operation *lastForward);

} // namespace mlir::autopar
