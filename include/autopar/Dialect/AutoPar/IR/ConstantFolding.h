// SPDX-License-Identifier: Apache-2.0
// Compile-time evaluation of operations whose operands are known: shape computations, masks, small
// tables. Import folds with it while it builds; anything that fits the limits vanishes from the
// program.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::autopar {

/// What is worth evaluating at compile time. A result of at most `always` elements is; a larger one
/// only if it does not outgrow its operands taken together (a broadcast stays a broadcast) and
/// stays within the limit of its element type. Splats count as one element.
struct FoldingLimits {
  int64_t always = 1 << 14;
  int64_t splats = 1 << 10;
  int64_t integers = 1 << 20;
  int64_t floats = 1 << 18;
};

/// The results of `op` for the given operand values (one per operand, of its type); nothing if the
/// operation is not evaluated here, its values are undefined (integer division by zero) or exceed
/// `limits`. Floats are computed in f64 and rounded once.
std::optional<SmallVector<DenseElementsAttr>> evaluateConstant(Operation *op,
                                                               ArrayRef<DenseElementsAttr> operands,
                                                               const FoldingLimits &limits = {});

} // namespace mlir::autopar
