// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-gradients. What each gradient stands for is said where it is built, in
// lib/Dialect/AutoPar/Gradients.
#include "autopar/Dialect/AutoPar/Gradients/ExpandGradients.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/TrainingEpilogues.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDGRADIENTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct ExpandGradientsPass : mlir::autopar::impl::ExpandGradientsPassBase<ExpandGradientsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<EpilogueMode> chosen = epilogueModeOf(getOperation(), activations);
    if (failed(chosen))
      return signalPassFailure();
    bool leaves = target == Target::Cuda && *chosen == EpilogueMode::Automatic;
    auto isTaken = [&](Operation *op) {
      auto gradient = dyn_cast<UnaryGradOp>(op);
      return leaves && gradient && productTaking(gradient);
    };
    for (Block &block : getOperation().getBody())
      for (auto [result, parts] : expandGradients(block, isTaken))
        result.getDefiningOp()->erase();
  }
};

} // namespace
