// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "FoldedConstants.h"

#include "autopar/Dialect/AutoPar/IR/ConstantFolding.h"
#include "autopar/Transforms/VaryingExtents.h"

using namespace mlir;
using namespace mlir::autopar;

bool FoldedConstants::isConstant(Operation *op) {
  if (isa<ConstantOp>(op))
    return true;
  auto [entry, isNew] = known.try_emplace(op, false);
  if (!isNew || op->getNumResults() != 1 || op->getNumRegions() || !isMemoryEffectFree(op) ||
      isa<RandomOp>(op))
    return entry->second;
  bool all = llvm::all_of(op->getOperands(), [&](Value operand) {
    return operand.getDefiningOp() && isConstant(operand.getDefiningOp());
  });
  return known[op] = all && (op->getNumOperands() > 0 || isa<IotaOp>(op));
}

ConstantOp FoldedConstants::fold(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constant;
  if (ConstantOp before = folded.lookup(op))
    return before;
  SmallVector<DenseElementsAttr> operands;
  for (Value operand : op->getOperands()) {
    ConstantOp constant = fold(operand.getDefiningOp());
    // Its numbers are those at the most.
    for (StringRef mark : {kDecidesAttribute, kClampedAttribute, kEndsAttribute})
      if (constant && constant->hasAttr(mark))
        return nullptr;
    auto value = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
    if (!value)
      return nullptr;
    operands.push_back(value);
  }
  constexpr int64_t most = 1 << 22;
  auto values = evaluateConstant(op, operands, {most, most, most, most});
  if (!values)
    return nullptr;
  OpBuilder at(op);
  auto constant = ConstantOp::create(at, op->getLoc(), values->front());
  if (Attribute varies = op->getAttr(kVariesAttribute))
    constant->setAttr(kVariesAttribute, varies);
  return folded[op] = constant;
}
