// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/Block.h"

namespace mlir::autopar {

/// Rewrites x + scatter_add(zeros, ...) to scatter_add(x, ...) where only the sum reads the
/// scatter: gradients of a table that is also a matrix touch few of its rows.
void accumulateScatters(Block &block);

} // namespace mlir::autopar
