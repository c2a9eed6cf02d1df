// SPDX-License-Identifier: Apache-2.0
// Float32 products of two matrices in memory, for processors with AVX-512: used where an operand
// changes from call to call (training), so that nothing can be packed beforehand.
#pragma once

#include "ProductShape.h"

#include <cstdint>

namespace autopar::cpumath {

/// c = a * b + bias[columns] + addend, which is laid out like c.
struct DenseProduct : ProductShape {
  struct Operands {
    const float *a = nullptr, *b = nullptr;
    float *c = nullptr;
    const float *bias = nullptr, *addend = nullptr; ///< null: none; the addend may be c
  };

  /// Whether this processor can run it and it is large enough to gain.
  bool isWorthwhile() const;
  int64_t scratchBytes(int threads) const;
  /// On `threads` threads of the calling thread's OpenMP pool, with scratchBytes(threads) of
  /// scratch at a multiple of 64. Every element is summed in one order, whatever the number of
  /// threads.
  void run(const Operands &operands, void *scratch, int threads) const;
};

} // namespace autopar::cpumath
