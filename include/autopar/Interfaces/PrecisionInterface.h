// SPDX-License-Identifier: Apache-2.0
// C++ side of the precision interface.
#pragma once

#include "mlir/IR/OpDefinition.h"

namespace mlir::autopar {

/// What an f32 operation does in mixed precision.
enum class Precision {
  /// Gains from narrow operands: reads and yields narrow floats, sums in f32.
  Narrow,
  /// Moves elements or picks one of them: yields what its operands are, narrow if any is.
  AsOperands,
  /// Computes in f32; what it yields is rounded if any operand was narrow.
  Rounded,
  /// Computes in f32 and yields f32: sums over many elements, statistics.
  Wide,
};

} // namespace mlir::autopar

#include "autopar/Interfaces/PrecisionInterface.h.inc"
