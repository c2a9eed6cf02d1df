// SPDX-License-Identifier: Apache-2.0
// What there is to put on pipeline stages: the chain that is cut, what follows from it, and what is
// on no stage.
#pragma once

#include "autopar/Transforms/Stages.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {

/// Whether an argument's next value is a result.
bool isDonated(func::FuncOp function, BlockArgument argument);
/// The stage that an argument already says it is on; null if none.
IntegerAttr pinnedStage(func::FuncOp function, BlockArgument argument);

struct OpsOfStages {
  explicit OpsOfStages(func::FuncOp function);

  DenseSet<Operation *> free;              ///< depends on inputs alone: made where it is needed
  SetVector<Operation *> ofParameters;     ///< on their first user's stage
  SmallVector<Operation *> forward, later; ///< all others, in order

  /// Inputs, control words, and what depends on nothing else.
  bool isOnNone(Value value) const;

private:
  bool isOfParameters(Value value) const;

  mutable func::FuncOp function; ///< a handle; only read
};

} // namespace mlir::autopar
