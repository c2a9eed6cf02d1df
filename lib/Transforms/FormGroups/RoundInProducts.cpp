// SPDX-License-Identifier: Apache-2.0
// The pass autopar-round-in-products: a parameter that changes every step is rounded to bf16 where
// its products read it, so that no rounded copy of it goes through memory.
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_ROUNDINPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The rounding, if a group is nothing else and rounds a donated argument.
CastOp parameterRounding(GroupOp group) {
  Block &body = group.getBody().front();
  auto rounding = dyn_cast<CastOp>(body.front());
  if (!rounding || rounding->getNextNode() != body.getTerminator() ||
      !rounding.getInput().getType().getElementType().isF32() ||
      !rounding.getType().getElementType().isBF16())
    return {};
  auto argument = dyn_cast<BlockArgument>(group.getInputs().front());
  auto function = group->getParentOfType<func::FuncOp>();
  bool isDonated = argument && argument.getOwner()->getParentOp() == function.getOperation() &&
                   function.getArgAttr(argument.getArgNumber(), "autopar.donated");
  return isDonated ? rounding : CastOp();
}

/// Whether the use is the right side of a product, and nothing else, in a library call's group.
bool isRightSide(OpOperand &use) {
  auto group = dyn_cast<GroupOp>(use.getOwner());
  if (!group)
    return false;
  Value inside = group.getBody().getArgument(use.getOperandNumber());
  return inside.hasOneUse() && isa<DotGeneralOp>(*inside.user_begin()) &&
         inside.use_begin()->getOperandNumber() == 1;
}

struct RoundInProductsPass : mlir::autopar::impl::RoundInProductsPassBase<RoundInProductsPass> {
  void runOnOperation() override {
    for (GroupOp group : llvm::make_early_inc_range(getOperation().getOps<GroupOp>()))
      if (CastOp rounding = parameterRounding(group);
          rounding && llvm::all_of(group.getResult(0).getUses(), isRightSide))
        moveIntoProducts(group, rounding);
  }

private:
  static void moveIntoProducts(GroupOp group, CastOp rounding) {
    Value parameter = group.getInputs().front();
    for (OpOperand &use : llvm::make_early_inc_range(group.getResult(0).getUses())) {
      auto product = cast<GroupOp>(use.getOwner());
      BlockArgument inside = product.getBody().getArgument(use.getOperandNumber());
      use.set(parameter);
      inside.setType(parameter.getType());
      OpBuilder builder = OpBuilder::atBlockBegin(&product.getBody().front());
      auto rounded = CastOp::create(builder, rounding.getLoc(), rounding.getType(), inside);
      setOpId(rounded, getOpId(rounding));
      inside.replaceAllUsesExcept(rounded, rounded);
    }
    group.erase();
  }
};

} // namespace
