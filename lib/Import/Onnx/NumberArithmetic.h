// SPDX-License-Identifier: Apache-2.0
// Tensors and known numbers.
#pragma once

#include "TensorBuilder.h"

namespace mlir::autopar {

inline Value scaled(TensorBuilder &b, Value x, double factor, double offset) {
  if (factor != 1)
    x = b.binary(BinaryKind::Mul, x, factor);
  return offset != 0 ? b.binary(BinaryKind::Add, x, offset) : x;
}

inline Value clamp(TensorBuilder &b, Value x, double low, double high) {
  return b.binary(BinaryKind::Min, b.binary(BinaryKind::Max, x, low), high);
}

} // namespace mlir::autopar
