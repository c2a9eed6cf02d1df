// SPDX-License-Identifier: Apache-2.0
// Products of two bf16 matrices in memory, for processors with tiles of bf16 (AMX): used where an
// operand changes from call to call (training), so that nothing can be packed beforehand.
#pragma once

#include "ProductShape.h"

#include <cstdint>

namespace autopar::cpumath {

/// c = a * b + bias[columns], summed in float32.
struct HalfProduct : ProductShape {
  /// float32, else bf16; of b each number is rounded to bf16 when it is read.
  bool givesFloat = false, biasIsFloat = false, bIsFloat = false;

  struct Operands {
    const void *a = nullptr, *b = nullptr;
    void *c = nullptr;
    const void *bias = nullptr; ///< null: none
  };

  /// Whether this processor, and the system, can run it and it is large enough to gain.
  bool isWorthwhile() const;
  int64_t scratchBytes(int threads) const;
  /// On `threads` threads of the calling thread's OpenMP pool, with scratchBytes(threads) of
  /// scratch at a multiple of 64. Every element is summed in one order, whatever the number of
  /// threads.
  void run(const Operands &operands, void *scratch, int threads) const;
};

} // namespace autopar::cpumath
