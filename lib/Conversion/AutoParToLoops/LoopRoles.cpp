// SPDX-License-Identifier: Apache-2.0
// What single loops of a kernel are for: which one vectors run along, which run innermost, so that
// what several rows read is read once, which go through a buffer.
#include "LoopPlanner.h"

#include "LoweringModels.h"

#include "autopar/Transforms/FewRows.h"

using namespace mlir;
using namespace mlir::autopar;

/// How many addresses are further apart than `stride` along a loop.
static int64_t countStrided(const Accesses &accesses, int64_t loop, int64_t stride) {
  return llvm::count_if(accesses.forms, [&](const LinearForm &form) {
    return form.isNonlinearIn(loop) || std::abs(form.coefficientOf(loop)) > stride;
  });
}

/// Vectors run along the row unless more addresses are contiguous across rows, or the row is
/// shorter than a vector.
void LoopPlanner::chooseColumn() {
  int64_t column = -1, row = -1, rowLength = 1;
  for (auto [i, loop] : llvm::enumerate(plan.loops)) {
    (loop.isRow ? row : column) = i;
    if (loop.isRow)
      rowLength *= loop.extent;
  }
  if (!plan.rows || column < 0)
    return;
  constexpr int64_t shortRow = 32, smallStride = 4;
  Accesses accesses = collect();
  bool isShort = rowLength <= shortRow && plan.loops[column].extent > rowLength / 2;
  int64_t along = row < 0 ? 0 : countStrided(accesses, row, 1);
  if (countStrided(accesses, column, 1) < along ||
      (isShort && countStrided(accesses, column, smallStride) <= along))
    plan.columnLoop = column;
  else
    plan.hasStridedRows = along > 0;
}

/// Whether all that the kernel computes are sums and the like, of which pieces can be joined.
bool LoopPlanner::reducesOnly() const {
  return plan.rows && plan.stageCount == 1 && llvm::all_of(plan.rowOps, [](PlannedRowOp row) {
           return row.op.getRowDomain().reduces && row.op.isRowDivisible();
         });
}

void LoopPlanner::chooseParts() {
  constexpr int64_t mostParts = 4;
  if (!reducesOnly())
    return;
  Accesses accesses = collect();
  SmallVector<unsigned> columns;
  for (auto [i, loop] : llvm::enumerate(plan.loops))
    if (!loop.isRow)
      columns.push_back(i);
  // Columns of several numbers each, side by side.
  if (plan.columnLoop >= 0 && plan.loops[plan.columnLoop].extent <= mostParts &&
      columns.size() > 1) {
    unsigned last = columns.pop_back_val(), wide = columns.back();
    if (int64_t extent = plan.loops[last].extent;
        plan.loops[wide].extent > extent &&
        countStrided(accesses, wide, extent) <= countStrided(accesses, last, 1)) {
      plan.partLoops.push_back(last);
      plan.columnLoop = wide;
    }
  }
  if (!columns.empty() && static_cast<int64_t>(columns.front()) != plan.columnLoop &&
      plan.loops[columns.front()].extent <= mostParts && plan.hasFewRows())
    plan.partLoops.push_back(columns.front());
}

/// For a GPU: rows that meet the same matrix are parts, so that it is read once for all of them;
/// and of a matrix whose lines are summed up, some neighbouring lines, which then share what is
/// read of the rows.
void LoopPlanner::chooseRowsOfTeam() {
  constexpr int64_t mostLines = 4, leastTeams = 512;
  int64_t mostSums = 16 / std::max<int64_t>(plan.rowOps.size(), 1);
  if (!reducesOnly() ||
      !llvm::all_of(plan.rowOps, [](PlannedRowOp row) { return meetsFewRows(row.op); }) ||
      !llvm::all_of(plan.outputs, [](const PlannedOutput &output) { return output.isRowLevel; }))
    return;
  Accesses accesses = collect();
  auto elements = [](const PlannedRead &read) {
    return read.input ? llvm::product_of(shapeOf(read.input)) : 0;
  };
  auto largest = llvm::max_element(accesses.reads, [&](const PlannedRead &a, const PlannedRead &b) {
    return elements(a) < elements(b);
  });
  const LinearForm &matrix = accesses.forms[largest - accesses.reads.begin()];
  int64_t parts = 1, teams = 1, lines = -1;
  for (auto [i, loop] : llvm::enumerate(plan.loops)) {
    if (loop.isRow)
      continue;
    lines = i;
    if (static_cast<int64_t>(i) != plan.columnLoop && matrix.coefficientOf(i) == 0 &&
        !matrix.isNonlinearIn(i) && parts * loop.extent <= mostSums) {
      plan.partLoops.push_back(i);
      parts *= loop.extent;
    } else {
      teams *= loop.extent;
    }
  }
  if (plan.columnLoop >= 0 || lines < 0 || matrix.coefficientOf(lines) == 0)
    return;
  int64_t extent = plan.loops[lines].extent;
  for (int64_t together = std::min(mostLines, mostSums / parts); together > 1; --together) {
    if (extent % together != 0 || teams / together < leastTeams)
      continue;
    AffineExpr first = getAffineDimExpr(lines, context),
               next = getAffineDimExpr(lines + 1, context);
    replaceLoop(lines, {{extent / together, false}, {together, false}}, first * together + next);
    plan.partLoops.push_back(lines + 1);
    return;
  }
}

/// A row in pieces of some vectors each (the blocks of quantized weights, each with a scale): a
/// loop over a piece is too short to be worth summing up its vector behind it.
void LoopPlanner::chooseLanes() {
  constexpr int64_t leastLanes = 16, mostLanes = 64;
  if (!reducesOnly() || plan.columnLoop >= 0)
    return;
  int64_t lanes = 1, taken = 0, left = 0;
  for (const LoopDim &loop : llvm::reverse(plan.loops)) {
    if (!loop.isRow)
      continue;
    if (left > 0 || lanes * loop.extent > mostLanes)
      ++left;
    else
      lanes *= loop.extent, ++taken;
  }
  if (left > 0 && lanes >= leastLanes)
    plan.laneLoops = taken;
}

/// Where the innermost loop walks over an input in large steps and another loop walks over it
/// element by element, blocks of both go through a buffer, so that memory is read and written in
/// whole lines.
void LoopPlanner::chooseTile() {
  constexpr int64_t largeStride = 8, leastExtent = 8;
  if (plan.rows || plan.loops.size() < 2 || plan.loops.back().extent < leastExtent)
    return;
  unsigned inner = plan.loops.size() - 1;
  Accesses accesses = collect();
  for (auto [read, form] : llvm::zip(accesses.reads, accesses.forms)) {
    if (!read.input || form.isNonlinearIn(inner) || form.coefficientOf(inner) < largeStride)
      continue;
    for (unsigned loop = 0; loop < inner; ++loop) {
      bool isContiguous = form.coefficientOf(loop) == 1 && !form.isNonlinearIn(loop) &&
                          plan.loops[loop].extent >= leastExtent;
      if (!isContiguous || (plan.tileLoop >= 0 && plan.tileLoop != loop))
        continue;
      plan.tileLoop = loop;
      plan.tiledReads.push_back(read);
    }
  }
}
