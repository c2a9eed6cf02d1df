// SPDX-License-Identifier: Apache-2.0
// Changing the shape of a parameter where it enters the program.
#include "ParameterShape.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

ParameterShape::ParameterShape(func::FuncOp function)
    : function(function), symbols(function->getParentOfType<ModuleOp>()) {}

bool ParameterShape::mayChange(Value value) {
  if (!isParameter(value) || !value.hasOneUse())
    return false;
  unsigned number = cast<BlockArgument>(value).getArgNumber();
  return !function.getArgAttr(number, "autopar.donated") &&
         !function.getArgAttr(number, "autopar.sharding") &&
         !function.getArgAttr(number, "autopar.global_shape");
}

void ParameterShape::change(Value parameter, RankedTensorType type) {
  unsigned number = cast<BlockArgument>(parameter).getArgNumber();
  if (auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(number, "autopar.origin"))
    if (auto origin = symbols.lookup<OriginOp>(symbol.getValue()))
      origin.setTypeAttr(TypeAttr::get(type));
  modelShapes.try_emplace(number,
                          llvm::to_vector(cast<RankedTensorType>(parameter.getType()).getShape()));
  parameter.setType(type);
}

void ParameterShape::finish() {
  if (modelShapes.empty())
    return;
  auto attributes = SignatureAttributes::ofArguments(function);
  for (auto &[number, shape] : modelShapes)
    if (!attributes.get(number, kModelShapeAttribute))
      attributes.set(number, kModelShapeAttribute,
                     DenseI64ArrayAttr::get(function.getContext(), shape));
  attributes.write();
  function.setType(FunctionType::get(function.getContext(),
                                     function.getBody().front().getArgumentTypes(),
                                     function.getResultTypes()));
}
