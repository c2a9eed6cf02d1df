// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryGroupedProduct.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

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
