// SPDX-License-Identifier: Apache-2.0
// The operations that become one kernel, whether they stand in an autopar.group or alone.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"

namespace mlir::autopar {

/// Views into the IR; valid while the group is not changed.
struct GroupBody {
  /// The group or the operation itself, for diagnostics.
  Operation *anchor = nullptr;
  /// In program order, without the terminator.
  SmallVector<Operation *> ops;
  /// Values that come from outside, in the order of the kernel's arguments.
  SmallVector<Value> inputs;
  /// Values that the kernel stores, in the order of the results.
  SmallVector<Value> outputs;

  static GroupBody of(Operation *groupOrOp);
};

} // namespace mlir::autopar
