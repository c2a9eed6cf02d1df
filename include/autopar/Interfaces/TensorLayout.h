// SPDX-License-Identifier: Apache-2.0
// How tensors lie in memory: strides, in elements, and bytes.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace mlir::autopar {

/// Bytes that a tensor or a buffer of its shape takes row-major; booleans take one each.
int64_t tensorBytes(ShapedType type);
/// Of several dimensions together.
int64_t extentOf(ShapedType type, ArrayRef<int64_t> dims);
/// Row-major strides.
SmallVector<int64_t> denseStrides(ArrayRef<int64_t> dims);
/// Whether the elements lie row-major without gaps (dims of extent 1 may have any stride).
bool isRowMajor(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides);
/// Whether the parts of dimension `dim` of a row-major tensor lie one after the other.
bool isOutermost(ArrayRef<int64_t> dims, int64_t dim);
/// Strides of `newDims` over the same elements in row-major order of indices; nothing where a new
/// dimension would have no single stride.
std::optional<SmallVector<int64_t>>
reshapedStrides(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides, ArrayRef<int64_t> newDims);
/// The stride with which `dims` can be walked as one dimension; nothing if there is none. The
/// stride of no dims, or of dims of extent 1 only, is 1.
std::optional<int64_t> mergedStride(ArrayRef<int64_t> dims, ArrayRef<int64_t> strides);

} // namespace mlir::autopar
