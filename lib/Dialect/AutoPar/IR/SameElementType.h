// SPDX-License-Identifier: Apache-2.0
// What moves elements leaves their type alone.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

inline LogicalResult sameElementType(Operation *op, RankedTensorType a, RankedTensorType b) {
  if (a.getElementType() != b.getElementType())
    return op->emitOpError() << "expects one element type, got " << a << " and " << b;
  return success();
}

} // namespace mlir::autopar
