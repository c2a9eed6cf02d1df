// SPDX-License-Identifier: Apache-2.0
// Constants of which extents decide the numbers.
#pragma once

#include "PaddingMask.h"

namespace mlir::autopar {

class DecidedConstants {
public:
  DecidedConstants(VaryingDims &dims, PaddingMask &mask) : dims(dims), mask(mask) {}

  /// Puts the number that extents decide (`kDecidesAttribute`) in the place of a constant.
  LogicalResult compute(ConstantOp constant);
  /// Keeps positions (`kClampedAttribute`) in front of where the end is.
  LogicalResult clamp(ConstantOp constant);
  /// Moves what stands at the end (`kEndsAttribute`) to where that is.
  LogicalResult moveEnds(ConstantOp constant);

private:
  VaryingDims &dims;
  PaddingMask &mask;
};

} // namespace mlir::autopar
