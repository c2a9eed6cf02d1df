// SPDX-License-Identifier: Apache-2.0
// Gradients that are one operation, written as the operations that they stand for.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Writes every operation of the block that has an expansion out, but for those that `keeps` holds
/// for, and returns what takes the place of each result. The operations stay, and nothing reads
/// them. What takes a result's place has the operation's name, the others have none; all are of its
/// phase.
DenseMap<Value, Value> expandGradients(Block &block,
                                       llvm::function_ref<bool(Operation *)> keeps = nullptr);

} // namespace mlir::autopar
