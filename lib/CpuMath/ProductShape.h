// SPDX-License-Identifier: Apache-2.0
// Extents and strides of a product of two matrices.
#pragma once

#include <cstdint>

namespace autopar::cpumath {

/// c[rows, columns] = a[rows, depth] * b[depth, columns]. Of the strides of a one is 1, of those of
/// b too; that of c's columns is 1. Strides count elements.
struct ProductShape {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t aRowStride = 0, aDepthStride = 0;
  int64_t bDepthStride = 0, bColumnStride = 0;
  int64_t cRowStride = 0;
};

} // namespace autopar::cpumath
