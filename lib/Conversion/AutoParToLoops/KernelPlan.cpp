// SPDX-License-Identifier: Apache-2.0
// What others ask a plan, and in which order it is made.
#include "KernelPlan.h"

#include "LoopPlanner.h"
#include "LoweringModels.h"

#include "autopar/Transforms/FewRows.h"

using namespace mlir;
using namespace mlir::autopar;

FailureOr<KernelPlan> KernelPlan::make(const GroupBody &body, Target target) {
  KernelPlan plan;
  LoopPlanner planner(plan, body);
  if (failed(planner.classify()))
    return failure();
  planner.shapeLoops();
  planner.chooseColumn();
  if (target == Target::Cpu) {
    planner.chooseParts();
    planner.chooseLanes();
  } else {
    planner.chooseRowsOfTeam();
  }
  planner.chooseTile();
  return plan;
}

SmallVector<int64_t> KernelPlan::extents() const {
  return llvm::map_to_vector(loops, [](const LoopDim &loop) { return loop.extent; });
}

SmallVector<int64_t> KernelPlan::rowIndexShape() const {
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(domainShape))
    if (!rows.isRowDim(dim))
      shape.push_back(size);
  return shape;
}

bool KernelPlan::isRowOp(Operation *op) const {
  return llvm::any_of(rowOps, [&](const PlannedRowOp &planned) {
    return const_cast<PlannedRowOp &>(planned).op.getOperation() == op;
  });
}

bool KernelPlan::hasFewRows() const {
  return llvm::all_of(rowOps, [](PlannedRowOp row) { return row.op->hasAttr(kFewRows); });
}

bool KernelPlan::isPosition(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape,
                            ArrayRef<AffineExpr> current, ArrayRef<int64_t> currentShape) const {
  if (llvm::product_of(shape) != llvm::product_of(currentShape))
    return false;
  return isSamePosition(index, shape, current, currentShape, extents());
}

bool KernelPlan::isCurrentPoint(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape) const {
  return isPosition(index, shape, domainIndex, domainShape);
}

bool KernelPlan::isCurrentRow(ArrayRef<AffineExpr> index, ArrayRef<int64_t> shape) const {
  return isPosition(index, shape, rowIndex, rowIndexShape());
}
