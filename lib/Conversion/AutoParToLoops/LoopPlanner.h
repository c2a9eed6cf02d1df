// SPDX-License-Identifier: Apache-2.0
// Makes a kernel's plan: classifies what it stores, orders its row passes, shapes its loops, and
// says what single loops are for.
#pragma once

#include "KernelPlan.h"

#include "llvm/ADT/SmallBitVector.h"

#include <set>

namespace mlir::autopar {

/// What the group reads and writes under one choice of loops.
struct Accesses {
  SmallVector<LinearForm> forms;         ///< flat offsets, in the order in which they were found
  SmallVector<PlannedRead> reads;        ///< the reads among them; others have no input
  llvm::SmallBitVector fixed;            ///< loops whose position a formula looks at
  SmallVector<std::set<int64_t>> breaks; ///< per loop: where a formula changes
};

class LoopPlanner {
public:
  LoopPlanner(KernelPlan &plan, const GroupBody &body)
      : plan(plan), body(body), context(body.anchor->getContext()) {}

  /// What is computed: outputs and row passes, over one loop per dimension of the domain.
  LogicalResult classify();
  /// Splits and merges loops until every address is as linear as it can be.
  void shapeLoops();

  // What single loops are for, in this order (LoopRoles.cpp).
  void chooseColumn();
  void chooseParts();
  void chooseRowsOfTeam();
  void chooseLanes();
  void chooseTile();

private:
  LogicalResult findDomain();
  LogicalResult addOutput(Value value, unsigned position);
  void orderStages();
  void setLoops(ArrayRef<LoopDim> loops, ArrayRef<AffineExpr> index);
  Accesses collect();
  void walk(Value value, SmallVector<AffineExpr> index, Accesses &accesses);
  void walkOperands(ElementLoweringOpInterface op, ArrayRef<AffineExpr> index, Accesses &accesses);
  /// Notes the address of an element that is written, or read where data tells.
  void addForm(Value value, ArrayRef<AffineExpr> index, Accesses &accesses);
  void fix(AffineExpr expr, Accesses &accesses);
  void addBreaks(AffineExpr expr, ArrayRef<int64_t> breaks, Accesses &accesses);
  bool splitOne(const Accesses &accesses);
  bool mergeOne(const Accesses &accesses);
  void dropUnitLoops();
  void replaceLoop(unsigned loop, ArrayRef<LoopDim> by, AffineExpr value);
  bool reducesOnly() const;

  KernelPlan &plan;
  const GroupBody &body;
  MLIRContext *context;
  std::set<std::pair<void *, SmallVector<void *>>> visited;
};

} // namespace mlir::autopar
