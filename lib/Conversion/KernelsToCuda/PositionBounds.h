// SPDX-License-Identifier: Apache-2.0
// How large the positions of a kernel become.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace autopar::cuda {

/// Bounds of a kernel's positions when it is launched with `grid`: from constants, the grid and
/// loops, through arithmetic.
class PositionBounds {
public:
  PositionBounds(mlir::func::FuncOp kernel, llvm::ArrayRef<int64_t> grid);

  /// No position is known to become larger than this, in either direction. What is read from memory
  /// or carried by a loop counts as small.
  uint64_t largest() const;
  /// The bound of one position; nothing where it depends on what is not known.
  std::optional<uint64_t> of(mlir::Value value) const;

private:
  struct Bound {
    uint64_t magnitude = 0;
    bool isKnown = false;
  };
  Bound compute(mlir::Operation *op) const;
  Bound join(Bound a, Bound b, uint64_t magnitude) const {
    return {magnitude, a.isKnown && b.isKnown};
  }

  llvm::ArrayRef<int64_t> grid;
  llvm::DenseMap<mlir::Value, Bound> bounds;
};

} // namespace autopar::cuda
