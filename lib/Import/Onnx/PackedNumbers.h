// SPDX-License-Identifier: Apache-2.0
// Numbers of a few bits, several in a byte.
#pragma once

#include "TensorBuilder.h"

namespace mlir::autopar {

/// What is in bytes [..., n], number i of a byte beginning at bit i * width: ui8 [..., n, 8 /
/// width]. The bits above a number are still there. `highFirst`: the numbers of a byte from its
/// upper bits down.
Value shiftedNumbers(TensorBuilder &b, Value packed, unsigned width, bool highFirst = false);

/// The numbers in bytes [..., n]: ui8 [..., n * 8 / width].
Value unpackedNumbers(TensorBuilder &b, Value packed, unsigned width, bool highFirst = false);

} // namespace mlir::autopar
