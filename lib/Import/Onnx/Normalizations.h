// SPDX-License-Identifier: Apache-2.0
// What the normalizations of ONNX and of onnxruntime have in common.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// The dimensions from `axis` on.
SmallVector<int64_t> dimsFrom(int64_t axis, int64_t rank);

/// `x` normalized over `dims` (rms: by its root mean square alone), times `scale`, plus `bias` if
/// that is not null; in the type of `scale`.
Value normalizeRows(TensorBuilder &b, Value x, ArrayRef<int64_t> dims, double epsilon, bool rms,
                    Value scale, Value bias);

/// By what normalizeRows moves and scales, with extents of 1 for the dimensions normalized over.
struct RowStatistics {
  Value mean; ///< null with rms
  Value inverseDeviation;
};
RowStatistics rowStatistics(TensorBuilder &b, Value x, ArrayRef<int64_t> dims, double epsilon,
                            bool rms);

/// [n, c, ...] normalized over each of `groups` groups of neighbouring channels.
Value normalizeGroups(TensorBuilder &b, Value x, int64_t groups, double epsilon);

} // namespace mlir::autopar
