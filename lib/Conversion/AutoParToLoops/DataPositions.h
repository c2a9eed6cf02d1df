// SPDX-License-Identifier: Apache-2.0
// Positions that are data. They are compared in their own type: the index of a GPU may have 32
// bits, and a number of 64 becomes one only when it is known to lie in the tensor.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace mlir::autopar {

/// `position` (a signed integer), or that plus `extent` where it is negative: counted from the end.
Value emitFromEnd(OpBuilder &builder, Location loc, Value position, int64_t extent);

/// `position` (a signed integer) clamped into [0, last], as an index.
Value emitClamped(OpBuilder &builder, Location loc, Value position, int64_t last);

/// A position as an index, and whether it is one; 0 where it is not.
struct CheckedPosition {
  Value index, isInside;
};
/// Whether `position` (a signed integer) lies in [0, extent).
CheckedPosition emitChecked(OpBuilder &builder, Location loc, Value position, int64_t extent);

} // namespace mlir::autopar
