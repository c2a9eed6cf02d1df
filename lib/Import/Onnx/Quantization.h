// SPDX-License-Identifier: Apache-2.0
// Quantized arithmetic that several operator families share.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// Integers of 2 to 32 bits.
bool isSmallInteger(Type element);

/// round(x / scale) + zeroPoint (null: of 1 and 0), saturated.
Value quantize(TensorBuilder &b, Value x, Value scale, Value zeroPoint, Type target);

/// Whole numbers of u8 with the scale and zero point that the range of the values gives.
struct DynamicallyQuantized {
  Value numbers, scale, zeroPoint;
};
DynamicallyQuantized quantizeDynamically(TensorBuilder &b, Value x);

/// One number per block of `block` positions along dimension `along`, repeated to `shape`.
FailureOr<Value> repeatBlocks(Node &node, Value value, ArrayRef<int64_t> shape, int64_t along,
                              int64_t block);

/// Input `i` less zero point `zero` as i32; a vector of zero points runs along dimension `dim`.
Value centered(Node &node, size_t i, size_t zero, int64_t dim);

} // namespace mlir::autopar
