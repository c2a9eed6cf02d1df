// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "SideBySide.h"

using namespace mlir;
using namespace mlir::autopar;

/// The name of an operation without its number among those of a node, which counts folded ones.
static StringRef nameWithoutNumber(Operation &op) {
  StringRef name = getOpId(&op), digits = name.take_back(name.size() - (name.rfind('.') + 1));
  bool isNumber = name.contains('.') && !digits.empty() && llvm::all_of(digits, llvm::isDigit);
  return isNumber ? name.drop_back(digits.size() + 1) : name;
}

static bool isSameOperation(Operation &a, Operation &b) {
  return a.getName() == b.getName() && nameWithoutNumber(a) == nameWithoutNumber(b) &&
         a.getNumOperands() == b.getNumOperands() && a.getNumResults() == b.getNumResults() &&
         a.getNumRegions() == 0 && b.getNumRegions() == 0;
}

LogicalResult SideBySide::walk() {
  Block &ours = function.getBody().front(), &theirs = other.getBody().front();
  if (ours.getNumArguments() != theirs.getNumArguments())
    return differ(function.getLoc(), "it decides how many inputs the model has");
  for (auto [a, b] : llvm::zip_equal(ours.getArguments(), theirs.getArguments())) {
    matching[a] = b;
    if (failed(visitArgument(a, b)))
      return failure();
  }
  auto computed = [&](Operation &op) { return !folds.isConstant(&op); };
  auto others = llvm::make_filter_range(theirs, computed);
  auto next = others.begin();
  for (Operation &op : llvm::make_filter_range(ours, computed)) {
    if (next == others.end())
      return success();
    Value handedOn = isSameOperation(op, *next) ? Value() : handedOnThere(op);
    if (Value there = handedOn ? matching.lookup(handedOn) : Value())
      matching[op.getResult(0)] = there;
    else if (failed(visit(op, *next++)))
      return failure();
  }
  return success();
}

LogicalResult SideBySide::visit(Operation &op, Operation &otherOp) {
  if (!isSameOperation(op, otherOp))
    return differ(op.getLoc(), "it decides which operations there are (loops are written out)");
  for (auto [operand, value] : llvm::zip_equal(op.getOpOperands(), otherOp.getOperands()))
    if (failed(visitOperand(operand, value)))
      return failure();
  for (auto [number, result] : llvm::enumerate(op.getResults())) {
    matching[result] = otherOp.getResult(number);
    if (failed(visitResult(op, static_cast<int64_t>(number), otherOp.getResult(number).getType())))
      return failure();
  }
  return visitAttributes(op, otherOp);
}

LogicalResult SideBySide::visitOperand(OpOperand &operand, Value value) {
  Operation *op = operand.get().getDefiningOp(), *otherOp = value.getDefiningOp();
  bool areConstants = op && otherOp && folds.isConstant(op) && folds.isConstant(otherOp);
  if (areConstants && visitsConstantOps() && !isa<ConstantOp>(op) &&
      !matching.contains(operand.get()) && isSameOperation(*op, *otherOp))
    return visit(*op, *otherOp);
  if (matching.lookup(operand.get()) == value)
    return success();
  return areConstants ? visitConstants(operand, op, otherOp)
                      : differ(operand.getOwner()->getLoc(), "it decides what the operation reads");
}
