// SPDX-License-Identifier: Apache-2.0
// The pass autopar-bound-attention-bias.
#include "CompositeMatching.h"

#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_BOUNDATTENTIONBIASPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Far from what a score is, and no infinity in powers of two.
constexpr double kLeast = -1e30, kLeastHalf = -65504;

struct BoundAttentionBiasPass
    : mlir::autopar::impl::BoundAttentionBiasPassBase<BoundAttentionBiasPass> {
  void runOnOperation() override {
    DenseMap<Value, Value> bounded; // one for all layers
    getOperation().walk([&](Operation *op) {
      auto bound = [&](auto attention) {
        Value bias = attention.getBias();
        if (!bias)
          return;
        Value &made = bounded[bias];
        if (!made)
          made = boundOf(bias, op);
        attention.getBiasMutable().assign(made);
      };
      if (auto attention = dyn_cast<AttentionOp>(op))
        bound(attention);
      else if (auto gradient = dyn_cast<AttentionGradOp>(op))
        bound(gradient);
    });
  }

  static Value boundOf(Value bias, Operation *root) {
    OpBuilder builder(root->getContext());
    builder.setInsertionPointAfterValue(bias);
    auto type = cast<RankedTensorType>(bias.getType());
    Type element = type.getElementType();
    auto number = ConstantOp::create(
        builder, root->getLoc(),
        DenseElementsAttr::get(
            RankedTensorType::get({}, element),
            builder.getFloatAttr(element, element.isF16() ? kLeastHalf : kLeast)));
    auto least = BroadcastOp::create(builder, root->getLoc(), type, number, ArrayRef<int64_t>{});
    auto made = BinaryOp::create(builder, root->getLoc(), type, BinaryKind::Max, bias, least);
    nameAfter(number, root, "least");
    nameAfter(least, root, "least.repeated");
    nameAfter(made, root, "bound");
    return made;
  }
};

} // namespace
