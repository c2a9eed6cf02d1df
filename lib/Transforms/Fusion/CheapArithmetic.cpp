// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "CheapArithmetic.h"

#include "FusionClusters.h"

#include "autopar/Interfaces/LoweringInterface.h"

using namespace mlir;
using namespace mlir::autopar;

/// What an element costs at most.
static constexpr int64_t kMostCost = 2;

static int64_t elementsOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

bool mlir::autopar::isCheapArithmetic(Operation *op) {
  auto lowering = dyn_cast<ElementLoweringOpInterface>(op);
  return lowering && !isFluid(op) && !isFixed(op) && op->getNumOperands() > 0 &&
         !lowering.getRowDomain() && lowering.getElementCost() <= kMostCost;
}

bool mlir::autopar::readsOnce(Operation *user, Value value) {
  auto lowering = dyn_cast<ElementLoweringOpInterface>(user);
  if (!lowering || isFluid(user) || isFixed(user))
    return false;
  RowDomain rows = lowering.getRowDomain();
  int64_t points = rows ? llvm::product_of(rows.shape) : elementsOf(user->getResult(0));
  return points == elementsOf(value);
}
