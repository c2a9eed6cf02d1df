// SPDX-License-Identifier: Apache-2.0
#include "RowMark.h"
#include "LoweringModels.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

/// Whether both are the same, as far as casts and broadcasts tell.
static bool isSame(Value a, Value b) {
  if (a == b)
    return true;
  Operation *first = a.getDefiningOp(), *second = b.getDefiningOp();
  if (!first || !second || a.getType() != b.getType() || first->getName() != second->getName() ||
      !isa<CastOp, BroadcastOp>(first))
    return false;
  if (auto broadcast = dyn_cast<BroadcastOp>(first);
      broadcast && broadcast.getDims() != cast<BroadcastOp>(second).getDims())
    return false;
  return isSame(first->getOperand(0), second->getOperand(0));
}

static bool isZero(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

/// What the positions along `dim` are compared with, if that is the same for all of them.
static Value comparedPosition(CompareOp compare, int64_t dim, const KernelPlan &plan) {
  Value counted = compare.getLhs(), position = compare.getRhs();
  if (!counted.getDefiningOp<IotaOp>())
    std::swap(counted, position);
  auto iota = counted.getDefiningOp<IotaOp>();
  auto broadcast = position.getDefiningOp<BroadcastOp>();
  if (compare.getPredicate() != ComparePredicate::Eq || !iota || !broadcast ||
      static_cast<int64_t>(iota.getDim()) != dim ||
      shapeOf(counted) != ArrayRef<int64_t>(plan.domainShape) ||
      llvm::is_contained(broadcast.getDims(), dim))
    return {};
  Type type = elementTypeOf(position);
  return type.isSignlessInteger(32) || type.isSignlessInteger(64) ? position : Value();
}

std::optional<RowMark> RowMark::find(const GroupBody &body, const KernelPlan &plan) {
  if (plan.rows.rowDims.size() != 1)
    return std::nullopt;
  RowMark mark;
  for (Operation *op : body.ops) {
    auto compare = dyn_cast<CompareOp>(op);
    Value position = compare ? comparedPosition(compare, plan.rows.rowDims.front(), plan) : Value();
    if (!position)
      continue;
    if (mark.position && !isSame(mark.position, position))
      return std::nullopt;
    mark.position = position;
    mark.tests.push_back(compare.getResult());
  }
  return mark.position ? std::optional<RowMark>(mark) : std::nullopt;
}

bool RowMark::isZeroElsewhere(Value value) const {
  auto select = value.getDefiningOp<SelectOp>();
  return select && isZero(select.getOnFalse()) &&
         (llvm::is_contained(tests, select.getCondition()) || isZeroElsewhere(select.getOnTrue()));
}

bool RowMark::isOnlyTermOf(Operation *op) const {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.getKind() == ReduceKind::Sum && isZeroElsewhere(reduce.getInput());
}

bool RowMark::matters(Value value) const {
  if (llvm::is_contained(tests, value))
    return true;
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](Value operand) { return matters(operand); });
}
