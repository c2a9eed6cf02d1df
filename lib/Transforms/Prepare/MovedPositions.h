// SPDX-License-Identifier: Apache-2.0
// Operations that move positions of varying extents: those that are counted from the end are
// counted from where it is.
#pragma once

#include "PaddingMask.h"

namespace mlir::autopar {

/// What they do, beside what follows from their sharding rules; each refuses what cannot vary.
class MovedPositions {
public:
  MovedPositions(VaryingDims &dims, PaddingMask &mask) : dims(dims), mask(mask) {}

  /// The dimensions that vary in the result.
  LogicalResult follow(SliceOp slice);
  LogicalResult follow(ConcatOp concat);
  LogicalResult follow(PadOp pad);

  /// Puts a gather in the place of a slice that moves with the end.
  LogicalResult takeFromEnd(SliceOp slice);

  /// Counts negative indices from where the end is.
  LogicalResult countFromEnd(GatherOp gather);
  LogicalResult countFromEnd(GatherElementsOp gather);

private:
  LogicalResult countFromEnd(Operation *op, OpOperand &indices, const Varying &varying,
                             int64_t columns, int64_t column);

  bool variesBehind(ConcatOp concat) const;

  VaryingDims &dims;
  PaddingMask &mask;
};

} // namespace mlir::autopar
