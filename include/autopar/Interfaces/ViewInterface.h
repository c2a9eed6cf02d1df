// SPDX-License-Identifier: Apache-2.0
// C++ side of the view interface.
#pragma once

#include "autopar/Interfaces/TensorLayout.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::autopar {

/// Where a view's elements are, in elements of the operand's buffer.
struct ViewLayout {
  SmallVector<int64_t> strides;
  int64_t offset = 0;
};

} // namespace mlir::autopar

#include "autopar/Interfaces/ViewInterface.h.inc"

namespace mlir::autopar {

/// Whether `op` is there and a view of all elements of its operand, in another shape or order.
inline bool isWholeView(Operation *op) {
  auto view = dyn_cast_if_present<ViewOpInterface>(op);
  return view && view.hasAllElements();
}

} // namespace mlir::autopar
