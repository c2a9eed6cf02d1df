// SPDX-License-Identifier: Apache-2.0
// The pass autopar-widen-half-products: the library has no products of f16, and loops over them
// would be many times slower than its products of f32.
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_WIDENHALFPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

bool isHalf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType().isF16();
}

struct WidenHalfProductsPass
    : mlir::autopar::impl::WidenHalfProductsPassBase<WidenHalfProductsPass> {
  void runOnOperation() override {
    getOperation().walk([&](Operation *op) {
      if (isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp, ConvolutionFilterGradOp>(op) &&
          llvm::any_of(op->getOperands(), isHalf))
        widen(op);
    });
  }

private:
  void widen(Operation *op) {
    OpBuilder builder(op);
    auto cast = [&](Value value, Type element, const Twine &name) -> Value {
      auto type = llvm::cast<RankedTensorType>(value.getType());
      auto made = CastOp::create(builder, op->getLoc(), type.clone(element), value);
      setOpId(made, (getOpId(op) + name).str());
      return made;
    };
    for (OpOperand &operand : op->getOpOperands()) {
      Value &known = widened[operand.get()];
      if (!known)
        known =
            cast(operand.get(), builder.getF32Type(), "/f32." + Twine(operand.getOperandNumber()));
      operand.set(known);
    }
    Value result = op->getResult(0);
    if (!isHalf(result))
      return;
    result.setType(llvm::cast<RankedTensorType>(result.getType()).clone(builder.getF32Type()));
    builder.setInsertionPointAfter(op);
    Value rounded = cast(result, builder.getF16Type(), "/f16");
    result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
  }

  DenseMap<Value, Value> widened;
};

} // namespace
