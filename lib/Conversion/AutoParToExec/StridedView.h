// SPDX-License-Identifier: Apache-2.0
// A tensor as a strided view of a buffer: how transposes and reshapes cost nothing until something
// asks for the elements in order.
#pragma once

#include "autopar/Dialect/Exec/IR/Exec.h"

#include <optional>

namespace mlir::autopar {

/// Element (i, j, ...) of the tensor stands at sum(i * strides) elements from the buffer's start.
struct StridedView {
  Value buffer;
  SmallVector<int64_t> strides;
};

/// Row-major strides, in elements.
SmallVector<int64_t> denseStrides(ArrayRef<int64_t> dims);
/// Whether the elements lie row-major without gaps (dims of extent 1 may have any stride).
bool isRowMajor(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides);
/// Strides of `newDims` over the same elements in row-major order of indices; nothing where a new
/// dimension would have no single stride.
std::optional<SmallVector<int64_t>>
reshapedStrides(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides, ArrayRef<int64_t> newDims);
/// The stride with which `dims` can be walked as one dimension; nothing if there is none. The
/// stride of no dims, or of dims of extent 1 only, is 1.
std::optional<int64_t> mergedStride(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides);

} // namespace mlir::autopar
