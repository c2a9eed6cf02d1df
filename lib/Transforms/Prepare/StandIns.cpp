// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StandIns.h"

using namespace mlir;
using namespace mlir::autopar;

Value mlir::autopar::repeatNumber(OpBuilder &builder, Operation *root, RankedTensorType type,
                                  double number, const Twine &name, const Twine &constantName) {
  Type element = type.getElementType();
  auto scalar = RankedTensorType::get({}, element);
  Attribute value = isa<FloatType>(element)
                        ? Attribute(builder.getFloatAttr(element, number))
                        : builder.getIntegerAttr(element, static_cast<int64_t>(number));
  auto constant =
      ConstantOp::create(builder, root->getLoc(), DenseElementsAttr::get(scalar, value));
  auto repeated = BroadcastOp::create(builder, root->getLoc(), type, constant, ArrayRef<int64_t>{});
  if (constantName.isTriviallyEmpty())
    nameAfter(constant, root, name + "/number");
  else
    nameAfter(constant, root, constantName);
  nameAfter(repeated, root, name);
  return repeated;
}

/// Of heads and rows, which is its own inverse.
static constexpr int64_t kSwapped[] = {0, 2, 1, 3};

TransposeOp mlir::autopar::swapHeadsAndRows(OpBuilder &builder, Operation *root, Value value,
                                            const Twine &name) {
  auto swap = TransposeOp::create(builder, root->getLoc(), value, ArrayRef<int64_t>(kSwapped));
  nameAfter(swap, root, name);
  return swap;
}

void mlir::autopar::readUnswapped(Value swapped) {
  auto swap = swapped.getDefiningOp<TransposeOp>();
  if (!swap || swap.getPermutation() != ArrayRef<int64_t>(kSwapped))
    return;
  for (Operation *user : llvm::make_early_inc_range(swap->getUsers()))
    if (auto back = dyn_cast<TransposeOp>(user);
        back && back.getPermutation() == swap.getPermutation()) {
      back.replaceAllUsesWith(swap.getInput());
      back.erase();
    }
}
