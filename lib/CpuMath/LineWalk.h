// SPDX-License-Identifier: Apache-2.0
// Fetching what is needed later beside other work, a cache line at a time.
#pragma once

#include <cstdint>

namespace autopar::cpumath {

constexpr int64_t kLineBytes = 64;

/// Walks the lines of a strided block, one per call.
struct LineWalk {
  const char *next = nullptr;
  int64_t linesPerRow = 0, rowsLeft = 0, rowBytes = 0, line = 0;

  LineWalk() = default;
  /// Stride and length of a row in elements.
  template <typename Element>
  LineWalk(const Element *data, int64_t rows, int64_t rowStride, int64_t rowLength)
      : rowsLeft(rows), rowBytes(rowStride * int64_t(sizeof(Element))) {
    auto first = reinterpret_cast<uintptr_t>(data);
    next = reinterpret_cast<const char *>(first / kLineBytes * kLineBytes);
    int64_t bytes = int64_t(first % kLineBytes) + rowLength * int64_t(sizeof(Element));
    linesPerRow = (bytes + kLineBytes - 1) / kLineBytes;
  }
  /// To the second cache, or to the first in order to write.
  template <bool ToWrite>
  void fetch() {
    if (rowsLeft == 0)
      return;
    __builtin_prefetch(next + line * kLineBytes, ToWrite, ToWrite ? 3 : 2);
    if (++line == linesPerRow) {
      line = 0;
      next += rowBytes;
      --rowsLeft;
    }
  }
};

} // namespace autopar::cpumath
