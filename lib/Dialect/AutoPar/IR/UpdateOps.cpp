// SPDX-License-Identifier: Apache-2.0
// Updates and their formulas: verification, sharding rule, FLOPs.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult FormulaOp::verify() {
  Block &block = getBody().front();
  auto isNumber = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() == 0;
  };
  if (!llvm::all_of(block.getArgumentTypes(), isNumber))
    return emitOpError("expects arguments of rank 0");
  for (Operation &op : block.without_terminator())
    if (!op.hasTrait<OpTrait::Elementwise>() && !op.hasTrait<OpTrait::ConstantLike>())
      return op.emitOpError("stands in a formula and is not elementwise");
    else if (!llvm::all_of(op.getResultTypes(), isNumber))
      return op.emitOpError("stands in a formula and is not of rank 0");
  return success();
}

FormulaOp UpdateOp::lookupFormula() {
  return SymbolTable::lookupNearestSymbolFrom<FormulaOp>(*this, getFormulaAttr());
}

LogicalResult UpdateOp::verify() {
  if (getInputs().empty() || getResults().empty())
    return emitOpError("expects at least a parameter and its next value");
  ArrayRef<int64_t> shape = typeOf(getInputs().front()).getShape();
  for (Value value : getInputs())
    if (RankedTensorType type = typeOf(value); type.getRank() != 0 && type.getShape() != shape)
      return emitOpError() << "expects operands of the parameter's shape or of rank 0, got " << type
                           << " beside " << getInputs().front().getType();
  for (Value value : getResults())
    if (typeOf(value).getShape() != shape)
      return emitOpError() << "expects results of the parameter's shape, got " << value.getType()
                           << " for " << getInputs().front().getType();
  return success();
}

LogicalResult UpdateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto formula = symbols.lookupNearestSymbolFrom<FormulaOp>(*this, getFormulaAttr());
  if (!formula)
    return emitOpError() << "follows " << getFormulaAttr() << ", which is no formula";
  auto fits = [](TypeRange numbers, TypeRange types) {
    return llvm::equal(numbers, types, [](Type number, Type type) {
      return getElementTypeOrSelf(number) == getElementTypeOrSelf(type);
    });
  };
  Block &body = formula.getBody().front();
  TypeRange yielded = body.getTerminator()->getOperandTypes();
  if (!fits(body.getArgumentTypes(), getInputs().getTypes()) || !fits(yielded, getResultTypes()))
    return emitOpError() << "expects the element types of " << getFormulaAttr() << ", ("
                         << body.getArgumentTypes() << ") -> (" << yielded << ")";
  return success();
}

ShardingRule UpdateOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType parameter = typeOf(getInputs().front());
  for (int64_t dim = 0; dim < parameter.getRank(); ++dim) {
    SmallVector<int64_t> operands, results(getNumResults(), dim);
    for (Value value : getInputs())
      operands.push_back(typeOf(value).getRank() == 0 ? ShardingRule::absent : dim);
    rule.addFactor(operands, results, parameter.getDimSize(dim));
  }
  return rule;
}

double UpdateOp::getFlops(ArrayRef<RankedTensorType>, ArrayRef<RankedTensorType> results) {
  FormulaOp formula = lookupFormula();
  auto perElement =
      formula ? llvm::count_if(formula.getBody().front().without_terminator(),
                               [](Operation &op) { return !op.hasTrait<OpTrait::ConstantLike>(); })
              : 0;
  return static_cast<double>(perElement) * static_cast<double>(results.front().getNumElements());
}
