// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "RestingShare.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/AtLoad.h"
#include "autopar/Transforms/Sharding.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::narrowsAtLoad(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  BlockArgument parameter = cast ? parameterIn(cast.getInput()) : BlockArgument();
  return parameter && isFixedParameter(parameter) &&
         tensorBytes(cast.getType()) < tensorBytes(cast.getInput().getType());
}

/// The types in which a parameter is read that keeps its values.
static void collectReadTypes(Value value, llvm::SmallSetVector<Type, 4> &types) {
  for (Operation *user : value.getUsers()) {
    auto product = dyn_cast<DotGeneralOp>(user);
    if (product && product.getScaledTo())
      types.insert(*product.getScaledTo());
    else if (narrowsAtLoad(user) || isa<ReshapeOp, TransposeOp>(user))
      collectReadTypes(user->getResult(0), types);
    else
      types.insert(tensorTypeOf(value).getElementType());
  }
}

double mlir::autopar::restingShare(BlockArgument parameter) {
  llvm::SmallSetVector<Type, 4> types;
  collectReadTypes(parameter, types);
  RankedTensorType type = tensorTypeOf(parameter);
  double bytes = 0;
  for (Type element : types)
    bytes += static_cast<double>(tensorBytes(type.clone(type.getShape(), element)));
  double whole = static_cast<double>(tensorBytes(type));
  return types.empty() || whole == 0 ? 1 : bytes / whole;
}
