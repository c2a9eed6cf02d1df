// SPDX-License-Identifier: Apache-2.0
// The pass autopar-bound-attention-bias.
#include "Prepare/StandIns.h"

#include "autopar/Transforms/LibraryAttention.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_BOUNDATTENTIONBIASPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Far from what a score is, and no infinity in powers of two. Products with a power of two are
/// exact, so that a difference of two of them, of which one was rounded, is zero.
constexpr double kLeast = -0x1p100, kLeastHalf = -65504;

struct BoundAttentionBiasPass
    : mlir::autopar::impl::BoundAttentionBiasPassBase<BoundAttentionBiasPass> {
  void runOnOperation() override {
    DenseMap<Value, Value> bounded, rows; // one for all layers
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
      else if (auto gradient = dyn_cast<AttentionGradOp>(op); gradient && gradient.getBias()) {
        bound(gradient);
        Value &all = rows[gradient.getBias()];
        if (!all)
          all = withAllRows(gradient);
        gradient.getBiasMutable().assign(all);
        gradient.getLogSumMutable().assign(visibleRows(gradient.getLogSum(), op));
      }
    });
  }

private:
  static double leastOf(Value bias) {
    return cast<RankedTensorType>(bias.getType()).getElementType().isF16() ? kLeastHalf : kLeast;
  }

  static Value boundOf(Value bias, Operation *root) {
    OpBuilder builder(root->getContext());
    builder.setInsertionPointAfterValue(bias);
    Value least =
        repeatNumber(builder, root, cast<RankedTensorType>(bias.getType()), leastOf(bias), "least");
    auto made =
        BinaryOp::create(builder, root->getLoc(), bias.getType(), BinaryKind::Max, bias, least);
    nameAfter(made, root, "bound");
    return made;
  }

  /// With all of its rows: of one that repeats them and differs by sample or head, cuDNN's
  /// gradients read only the first column.
  static Value withAllRows(AttentionGradOp gradient) {
    Value bias = gradient.getBias();
    auto type = cast<RankedTensorType>(bias.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[2] = cast<RankedTensorType>(gradient.getQuery().getType()).getDimSize(2);
    if (type.getShape() == ArrayRef<int64_t>(shape))
      return bias;
    OpBuilder builder(gradient->getContext());
    builder.setInsertionPointAfterValue(bias);
    auto made = BroadcastOp::create(builder, gradient.getLoc(), type.clone(shape), bias,
                                    ArrayRef<int64_t>{0, 1, 2, 3});
    nameAfter(made, gradient, "all_rows");
    return made;
  }

  /// Sums of rows, infinite for one that is hidden whole: it has weights of zero, and no gradient.
  /// With the sum that it has, each of its elements would have the weight 1.
  static Value visibleRows(Value sums, Operation *root) {
    OpBuilder builder(root);
    auto type = cast<RankedTensorType>(sums.getType());
    Value bound = repeatNumber(builder, root, type, kHiddenRow, "hidden");
    Value none =
        repeatNumber(builder, root, type, std::numeric_limits<double>::infinity(), "no_weight");
    auto isVisible = CompareOp::create(builder, root->getLoc(), type.clone(builder.getI1Type()),
                                       ComparePredicate::Gt, sums, bound);
    auto made = SelectOp::create(builder, root->getLoc(), type, isVisible, sums, none);
    nameAfter(isVisible, root, "is_visible");
    nameAfter(made, root, "visible_rows");
    return made;
  }
};

} // namespace
