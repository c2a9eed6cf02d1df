// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryGroupedProduct.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/MadeOfLess.h"

using namespace mlir;
using namespace mlir::autopar;

static bool isEmpty(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements() == 0;
}

static bool isLibraryFloat(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return element.isF32() || element.isBF16() || element.isF16();
}

bool mlir::autopar::isLibraryGroupedProduct(Operation *op, Target target) {
  return target == Target::Cpu && isa<GroupedDotOp, GroupedDotRhsGradOp>(op) &&
         isLibraryFloat(op->getOperand(0)) && isLibraryFloat(op->getResult(0)) &&
         llvm::none_of(op->getOperands(), isEmpty) && !isEmpty(op->getResult(0));
}

bool mlir::autopar::isTiledGroupedProduct(Operation *op, Target target) {
  auto hasEights = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getShape().back() % 8 == 0;
  };
  auto hasVectors = [&](Value value) {
    Type element = cast<RankedTensorType>(value.getType()).getElementType();
    return (element.isF16() || element.isBF16()) && hasEights(value);
  };
  // The third operand tells the groups.
  return target == Target::Cuda && isa<GroupedDotOp, GroupedDotRhsGradOp>(op) &&
         llvm::all_of(op->getOperands().take_front(2), hasVectors) &&
         isLibraryFloat(op->getResult(0)) && hasEights(op->getResult(0)) &&
         llvm::none_of(op->getOperands(), isEmpty) && !isEmpty(op->getResult(0));
}

bool mlir::autopar::isMadeInParts(Operation *op) {
  if (op->getNumResults() != 1 || !op->hasOneUse())
    return false;
  Operation *reader = *op->user_begin();
  while (isWholeView(reader) && reader->hasOneUse())
    reader = *reader->user_begin();
  auto product = dyn_cast<GroupedDotOp>(reader);
  return product && isMadeOfLess(product.getRhs());
}
