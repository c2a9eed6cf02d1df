// SPDX-License-Identifier: Apache-2.0
// What loops a kernel has: its iteration space, which of its dimensions are rows, which dimensions
// are split or merged so that addresses become simple, and in which order row passes run. Decided
// before anything is emitted, from operand maps alone.
#pragma once

#include "GroupBody.h"
#include "autopar/Interfaces/IndexExpressions.h"
#include "autopar/Transforms/Target.h"

namespace mlir::autopar {

/// One loop dimension. Index expressions of the plan are over loop dimensions: dimension i of an
/// expression is loops[i].
struct LoopDim {
  int64_t extent = 1;
  bool isRow = false; ///< part of the row
  /// Ascending positions at which a formula changes: the loop may be divided there.
  SmallVector<int64_t> breaks = {};
};

/// A value that the kernel stores.
struct PlannedOutput {
  Value value;
  unsigned position = 0;         ///< among the group's results
  bool isRowLevel = false;       ///< one element per row instead of one per point
  SmallVector<AffineExpr> index; ///< where, over loop dimensions
};

/// An element that a formula reads from an input.
struct PlannedRead {
  Value input;
  SmallVector<AffineExpr> index; ///< over loop dimensions, simplified
};

/// A row operation of the kernel and the first of its stages: pass p runs in stage firstStage + p.
struct PlannedRowOp {
  ElementLoweringOpInterface op;
  int64_t firstStage = 0;
};

class KernelPlan {
public:
  /// Plans the loops of a group; fails with a diagnostic if it cannot be one kernel.
  static FailureOr<KernelPlan> make(const GroupBody &body, Target target);

  /// Index of the iteration space (domain), over loop dimensions, one per domain dimension.
  SmallVector<AffineExpr> domainIndex;
  /// The domain index without row dimensions.
  SmallVector<AffineExpr> rowIndex;
  SmallVector<LoopDim> loops;
  SmallVector<PlannedOutput> outputs;
  SmallVector<PlannedRowOp> rowOps;
  int64_t stageCount = 0;
  /// The iteration space that all rowOps share; false for pointwise kernels.
  RowDomain rows;
  SmallVector<int64_t> domainShape;
  /// The loop dimension over which vectors of rows run, or -1 when vectors run along the row.
  int64_t columnLoop = -1;
  /// Short loops over rows that run innermost, so that what all of their rows read is read and
  /// computed once: the parts of a byte, the few rows that weights are multiplied by. A GPU's team
  /// of threads takes all of them.
  SmallVector<unsigned> partLoops;
  /// The number of innermost row loops that are a short piece of the row, walked over again and
  /// again by those around them, or 0: vectors run along such a piece.
  int64_t laneLoops = 0;
  /// Whether something is read in steps along the row: reading it again is expensive.
  bool hasStridedRows = false;
  /// The loop dimension along which tiledReads are contiguous while they are not along the
  /// innermost one, or -1.
  int64_t tileLoop = -1;
  SmallVector<PlannedRead> tiledReads;

  SmallVector<int64_t> extents() const;
  /// Shape that rowIndex indexes.
  SmallVector<int64_t> rowIndexShape() const;
  /// Whether all sums are products of few rows with weights (FewRows.h).
  bool hasFewRows() const;
  /// Whether `op` is one of rowOps.
  bool isRowOp(Operation *op) const;
  /// Whether `index` of a tensor of `shape` is the current point (the current row), by row-major
  /// position.
  bool isCurrentPoint(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape) const;
  bool isCurrentRow(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape) const;

private:
  friend class LoopPlanner;
  bool isPosition(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape, ArrayRef<AffineExpr> current,
                  ArrayRef<int64_t> currentShape) const;
};

} // namespace mlir::autopar
