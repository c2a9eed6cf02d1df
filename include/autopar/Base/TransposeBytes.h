// SPDX-License-Identifier: Apache-2.0
// Matrices of any element type as they lie in files.
#pragma once

#include <cstdint>
#include <cstring>

namespace autopar {

/// Writes the transpose of `from`, [rows, columns] in rows, to `to`; they do not overlap.
inline void transposeBytes(const void *from, void *to, int64_t rows, int64_t columns,
                           size_t elementBytes) {
  auto *source = static_cast<const uint8_t *>(from);
  auto *target = static_cast<uint8_t *>(to);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      std::memcpy(target + size_t(column * rows + row) * elementBytes,
                  source + size_t(row * columns + column) * elementBytes, elementBytes);
}

} // namespace autopar
