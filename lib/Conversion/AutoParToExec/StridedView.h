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

} // namespace mlir::autopar
