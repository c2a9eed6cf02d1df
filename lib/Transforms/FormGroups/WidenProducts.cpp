// SPDX-License-Identifier: Apache-2.0
// The pass autopar-widen-products: the library has no products of f16 and of floats of 8 bits, and
// on processors without AVX-512 none of bf16; loops over them would be many times slower than its
// products of wider floats.
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_WIDENPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

struct WidenProductsPass : mlir::autopar::impl::WidenProductsPassBase<WidenProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([&](Operation *op) {
      if (!isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp, ConvolutionFilterGradOp,
               GroupedDotOp, GroupedDotRhsGradOp>(op))
        return;
      if (llvm::any_of(op->getOperands(), [&](Value value) {
            return elementOf(value).isF16() || (!bf16Library && elementOf(value).isBF16());
          }))
        widen(op, Float32Type::get(op->getContext()));
      else if (isa<Float8E4M3FNType>(elementOf(op->getOperand(0))))
        widen(op, bf16 ? Type(BFloat16Type::get(op->getContext()))
                       : Type(Float32Type::get(op->getContext())));
    });
  }

private:
  void widen(Operation *op, Type element) {
    std::string name;
    llvm::raw_string_ostream(name) << "/" << element << ".";
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<FloatType>(elementOf(operand.get())))
        continue; // numbers of groups
      Value &known = widened[{operand.get(), element}];
      if (!known)
        known = cast(OpBuilder(op), op, operand.get(), element,
                     name + std::to_string(operand.getOperandNumber()));
      operand.set(known);
    }
    Value result = op->getResult(0);
    Type narrow = elementOf(result);
    if (narrow == element || narrow.isF32())
      return;
    // The library rounds to what it multiplies alone.
    Type sum = Float32Type::get(op->getContext());
    result.setType(llvm::cast<RankedTensorType>(result.getType()).clone(sum));
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    Value rounded = cast(builder, op, result, narrow, narrow.isF16() ? "/f16" : "/bf16");
    result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
  }

  static Value cast(OpBuilder builder, Operation *op, Value value, Type element,
                    const Twine &suffix) {
    auto type = llvm::cast<RankedTensorType>(value.getType());
    auto made = CastOp::create(builder, op->getLoc(), type.clone(element), value);
    setOpId(made, (getOpId(op) + suffix).str());
    return made;
  }

  DenseMap<std::pair<Value, Type>, Value> widened;
};

} // namespace
