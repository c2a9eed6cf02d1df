// SPDX-License-Identifier: Apache-2.0
// The pass autopar-price-in-products: what is searched is priced operation by operation, on whole
// tensors and in the types that mixed precision wrote, long before a product takes what is behind
// it.
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/TrainingEpilogues.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_PRICEINPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct PriceInProductsPass : mlir::autopar::impl::PriceInProductsPassBase<PriceInProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<EpilogueMode> ofActivations = epilogueModeOf(getOperation(), activations),
                            ofBiases = epilogueModeOf(getOperation(), biases);
    if (failed(ofActivations) || failed(ofBiases))
      return signalPassFailure();
    Builder builder(&getContext());
    auto price = [&](Operation *op, int64_t bytes) {
      op->setAttr(kInProduct, builder.getI64IntegerAttr(bytes));
    };
    for (Block &block : getOperation().getBody()) {
      if (*ofActivations == EpilogueMode::Automatic)
        for (auto gradient : block.getOps<UnaryGradOp>())
          if (DotGeneralOp product = productTaking(gradient, /*throughCasts=*/true)) {
            // A mask is a sixteenth.
            bool readsMask = gradient.getKind() == UnaryKind::Relu;
            Type element = product.getType().getElementType();
            price(gradient, readsMask ? 0 : element.getIntOrFloatBitWidth() / 8);
          }
      if (*ofBiases == EpilogueMode::Kernels)
        continue;
      auto isWanted = [](DotGeneralOp product, ReduceOp) { return !hasOtherEpilogue(product); };
      for (auto [product, sum] : sumsOfProducts(block, isWanted))
        price(sum, 0);
    }
  }
};

} // namespace
