// SPDX-License-Identifier: Apache-2.0
// What a kernel computes and reads, and by which loops every address is as linear as it can be.
#include "LoopPlanner.h"

#include "LoweringModels.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- what is computed ---------------------------------------------------------------------===//

LogicalResult LoopPlanner::findDomain() {
  // The last row operation decides; rows of another shape would be computed inside the element.
  for (Operation *op : llvm::reverse(body.ops)) {
    auto lowering = dyn_cast<ElementLoweringOpInterface>(op);
    if (!lowering)
      return op->emitOpError("has no element lowering and cannot be part of a kernel with others");
    if (RowDomain rows = lowering.getRowDomain(); rows && !plan.rows)
      plan.rows = rows;
  }
  if (plan.rows)
    plan.domainShape = plan.rows.shape;
  else
    plan.domainShape = llvm::to_vector(shapeOf(body.outputs.front()));
  return success();
}

LogicalResult LoopPlanner::addOutput(Value value, unsigned position) {
  PlannedOutput output{value, position, false, {}};
  int64_t count = llvm::product_of(shapeOf(value));
  if (count == llvm::product_of(plan.domainShape)) {
    AffineMap map = reshapeMap(shapeOf(value), plan.domainShape, context);
    output.index = llvm::to_vector(map.getResults());
  } else if (plan.rows && count == llvm::product_of(plan.rowIndexShape())) {
    output.isRowLevel = true;
  } else {
    return body.anchor->emitOpError()
           << "cannot become one kernel: result " << position << " of type " << value.getType()
           << " has neither the elements nor the rows of the kernel's iteration space ["
           << plan.domainShape << "]";
  }
  plan.outputs.push_back(output);
  return success();
}

/// A pass runs after all passes of the row operations that its operands depend on; passes of one
/// stage share their loops.
void LoopPlanner::orderStages() {
  DenseMap<Value, int64_t> ready;
  for (Operation *op : body.ops) {
    int64_t stage = 0;
    for (Value operand : op->getOperands())
      stage = std::max(stage, ready.lookup(operand));
    auto lowering = cast<ElementLoweringOpInterface>(op);
    if (RowDomain rows = lowering.getRowDomain(); rows && rows.agrees(plan.rows)) {
      plan.rowOps.push_back({lowering, stage});
      stage += lowering.getRowPassCount();
      plan.stageCount = std::max(plan.stageCount, stage);
    }
    for (Value result : op->getResults())
      ready[result] = stage;
  }
}

LogicalResult LoopPlanner::classify() {
  if (body.outputs.empty())
    return body.anchor->emitOpError("has no results to compute");
  if (failed(findDomain()))
    return failure();
  for (auto [position, value] : llvm::enumerate(body.outputs))
    if (failed(addOutput(value, position)))
      return failure();
  orderStages();
  SmallVector<LoopDim> loops;
  SmallVector<AffineExpr> index;
  for (auto [dim, size] : llvm::enumerate(plan.domainShape)) {
    loops.push_back({size, plan.rows.isRowDim(dim)});
    index.push_back(getAffineDimExpr(dim, context));
  }
  setLoops(loops, index);
  return success();
}

void LoopPlanner::setLoops(ArrayRef<LoopDim> loops, ArrayRef<AffineExpr> index) {
  plan.loops.assign(loops.begin(), loops.end());
  plan.domainIndex = llvm::to_vector(index);
  plan.rowIndex.clear();
  for (auto [dim, expr] : llvm::enumerate(plan.domainIndex))
    if (!plan.rows.isRowDim(dim))
      plan.rowIndex.push_back(expr);
  SmallVector<int64_t> rowShape = plan.rowIndexShape();
  for (PlannedOutput &output : plan.outputs) {
    AffineMap map =
        reshapeMap(shapeOf(output.value), output.isRowLevel ? rowShape : plan.domainShape, context);
    output.index = applyMap(map, output.isRowLevel ? plan.rowIndex : plan.domainIndex);
  }
}

//===-- what is read where -------------------------------------------------------------------===//

void LoopPlanner::fix(AffineExpr expr, Accesses &accesses) {
  for (unsigned loop = 0; loop < plan.loops.size(); ++loop)
    if (expr.isFunctionOfDim(loop))
      accesses.fixed.set(loop);
}

/// Positions of an index that is a loop variable plus a constant are positions of that loop.
void LoopPlanner::addBreaks(AffineExpr expr, ArrayRef<int64_t> breaks, Accesses &accesses) {
  LinearForm form = linearize(expr, plan.extents());
  if (form.terms.size() != 1 || form.terms[0].second != 1)
    return;
  auto dim = dyn_cast<AffineDimExpr>(form.terms[0].first);
  for (int64_t position : breaks)
    if (int64_t place = position - form.constant;
        dim && place > 0 && place < plan.loops[dim.getPosition()].extent)
      accesses.breaks[dim.getPosition()].insert(place);
}

void LoopPlanner::walkOperands(ElementLoweringOpInterface op, ArrayRef<AffineExpr> index,
                               Accesses &accesses) {
  for (int64_t dim : op.getPositionDimensions()) {
    fix(index[dim], accesses);
    addBreaks(index[dim], op.getPositionBreaks(dim), accesses);
  }
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (AffineMap map = op.getOperandMap(i))
      walk(operand, applyMap(map, index), accesses);
    else if (AffineMap map = op.getMapBesidesData(i);
             map && llvm::is_contained(body.inputs, operand))
      addForm(operand, applyMap(map, index), accesses);
  }
}

void LoopPlanner::addForm(Value value, ArrayRef<AffineExpr> index, Accesses &accesses) {
  accesses.forms.push_back(linearize(flatten(index, shapeOf(value), context), plan.extents()));
  accesses.reads.push_back({});
}

void LoopPlanner::walk(Value value, SmallVector<AffineExpr> index, Accesses &accesses) {
  SmallVector<int64_t> extents = plan.extents();
  std::pair<void *, SmallVector<void *>> key{value.getAsOpaquePointer(), {}};
  for (AffineExpr &expr : index) {
    expr = simplifyIndex(expr, extents);
    key.second.push_back(const_cast<void *>(expr.getAsOpaquePointer()));
  }
  if (!visited.insert(key).second)
    return;
  if (llvm::is_contained(body.inputs, value)) {
    accesses.forms.push_back(linearize(flatten(index, shapeOf(value), context), extents));
    accesses.reads.push_back({value, index});
    return;
  }
  auto op = cast<ElementLoweringOpInterface>(value.getDefiningOp());
  if (!op.getRowDomain())
    return walkOperands(op, index, accesses);
  bool isCurrent = op.getRowDomain().reduces ? plan.isCurrentRow(index, shapeOf(value))
                                             : plan.isCurrentPoint(index, shapeOf(value));
  if (plan.isRowOp(op) && isCurrent)
    return;
  for (AffineExpr expr : index)
    fix(expr, accesses);
}

Accesses LoopPlanner::collect() {
  visited.clear();
  Accesses accesses;
  accesses.fixed.resize(plan.loops.size());
  accesses.breaks.resize(plan.loops.size());
  SmallVector<int64_t> extents = plan.extents();
  for (PlannedOutput &output : plan.outputs) {
    addForm(output.value, output.index, accesses);
    walk(output.value, output.index, accesses);
  }
  for (PlannedRowOp &row : plan.rowOps)
    walkOperands(row.op, plan.domainIndex, accesses);
  return accesses;
}

//===-- splitting and merging ----------------------------------------------------------------===//

/// Replaces loop `loop` by the loops `by` (or none); `value` is its index over the new numbering.
void LoopPlanner::replaceLoop(unsigned loop, ArrayRef<LoopDim> by, AffineExpr value) {
  SmallVector<AffineExpr> renamed;
  int64_t shift = static_cast<int64_t>(by.size()) - 1;
  for (unsigned i = 0; i < plan.loops.size(); ++i)
    renamed.push_back(i == loop ? value : getAffineDimExpr(i < loop ? i : i + shift, context));
  SmallVector<LoopDim> loops(plan.loops);
  loops.erase(loops.begin() + loop);
  loops.insert(loops.begin() + loop, by.begin(), by.end());
  SmallVector<AffineExpr> index;
  for (AffineExpr expr : plan.domainIndex)
    index.push_back(expr.replaceDims(renamed));
  setLoops(loops, index);
}

/// A loop of extent a * c over which d floordiv c or d mod c is asked becomes two loops.
bool LoopPlanner::splitOne(const Accesses &accesses) {
  for (const LinearForm &form : accesses.forms) {
    int64_t found = -1, by = 0;
    auto inspect = [&](AffineExpr expr) {
      if (expr.getKind() != AffineExprKind::FloorDiv && expr.getKind() != AffineExprKind::Mod)
        return;
      auto binary = cast<AffineBinaryOpExpr>(expr);
      auto dim = dyn_cast<AffineDimExpr>(binary.getLHS());
      int64_t divisor = cast<AffineConstantExpr>(binary.getRHS()).getValue();
      if (!dim || divisor < 2)
        return;
      int64_t extent = plan.loops[dim.getPosition()].extent;
      if (extent > divisor && extent % divisor == 0) {
        found = dim.getPosition();
        by = divisor;
      }
    };
    for (auto [term, coefficient] : form.terms)
      term.walk(inspect);
    if (found < 0)
      continue;
    LoopDim loop = plan.loops[found];
    AffineExpr high = getAffineDimExpr(found, context), low = getAffineDimExpr(found + 1, context);
    replaceLoop(found, {{loop.extent / by, loop.isRow}, {by, loop.isRow}}, high * by + low);
    return true;
  }
  return false;
}

void LoopPlanner::dropUnitLoops() {
  for (unsigned loop = plan.loops.size(); loop-- > 0;)
    if (plan.loops[loop].extent == 1)
      replaceLoop(loop, {}, getAffineConstantExpr(0, context));
}

/// Two neighbouring loops become one that runs over the product: the outer index is then always
/// zero and the inner one exceeds its extent, which is right where every address is a multiple of
/// outer * extent + inner. The addresses are computed again afterwards, and the merge is taken back
/// unless each of them came out as expected.
bool LoopPlanner::mergeOne(const Accesses &accesses) {
  for (unsigned inner = plan.loops.size(); inner-- > 1;) {
    unsigned outer = inner - 1;
    LoopDim first = plan.loops[outer], second = plan.loops[inner];
    if (first.isRow != second.isRow || accesses.fixed.test(outer) || accesses.fixed.test(inner))
      continue;
    bool linear = llvm::all_of(accesses.forms, [&](const LinearForm &form) {
      return !form.isNonlinearIn(outer) && !form.isNonlinearIn(inner) &&
             form.coefficientOf(outer) == form.coefficientOf(inner) * second.extent;
    });
    if (!linear)
      continue;
    KernelPlan saved = plan;
    plan.loops[inner].extent = first.extent * second.extent;
    replaceLoop(outer, {}, getAffineConstantExpr(0, context));
    Accesses merged = collect();
    SmallVector<AffineExpr> renamed;
    for (unsigned i = 0; i < saved.loops.size(); ++i)
      renamed.push_back(i == outer ? getAffineConstantExpr(0, context)
                                   : getAffineDimExpr(i < outer ? i : i - 1, context));
    SmallVector<int64_t> extents = plan.extents();
    bool same = merged.forms.size() == accesses.forms.size();
    for (size_t i = 0; same && i < merged.forms.size(); ++i) {
      AffineExpr expected = accesses.forms[i].toExpr(context).replaceDims(renamed);
      LinearForm difference = linearize(expected - merged.forms[i].toExpr(context), extents);
      same = difference.terms.empty() && difference.constant == 0;
    }
    if (same)
      return true;
    plan = saved;
  }
  return false;
}

void LoopPlanner::shapeLoops() {
  constexpr int maxSplits = 8;
  dropUnitLoops();
  for (int i = 0; i < maxSplits && splitOne(collect()); ++i)
    ;
  while (mergeOne(collect()))
    ;
  Accesses accesses = collect();
  for (auto [loop, breaks] : llvm::zip(plan.loops, accesses.breaks))
    loop.breaks.assign(breaks.begin(), breaks.end());
}
