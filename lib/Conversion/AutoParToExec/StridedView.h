// SPDX-License-Identifier: Apache-2.0
// A tensor as a strided view of a buffer: how transposes and reshapes cost nothing until something
// asks for the elements in order.
#pragma once

#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Interfaces/TensorLayout.h"

namespace mlir::autopar {

/// Element (i, j, ...) of the tensor stands at sum(i * strides) elements from the buffer's start.
struct StridedView {
  Value buffer;
  SmallVector<int64_t> strides;
};

/// Whether the elements of a row, along the last dimension, lie side by side.
inline bool hasContiguousRows(RankedTensorType type, ArrayRef<int64_t> strides) {
  return type.getShape().back() == 1 || strides.back() == 1;
}

/// Such a view as the geometry of a library call has it.
inline exec::StridedAttr ofContiguousRows(RankedTensorType type, const StridedView &view) {
  SmallVector<int64_t> strides(view.strides);
  strides.back() = 1;
  return exec::StridedAttr::get(type.getContext(), type.getElementType(), type.getShape(), strides);
}

} // namespace mlir::autopar
