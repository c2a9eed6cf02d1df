// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-gradients. What each gradient stands for is said where it is built, in
// lib/Dialect/AutoPar/Gradients.
#include "autopar/Dialect/AutoPar/Gradients/ExpandGradients.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDGRADIENTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct ExpandGradientsPass : mlir::autopar::impl::ExpandGradientsPassBase<ExpandGradientsPass> {
  void runOnOperation() override {
    for (Block &block : getOperation().getBody())
      for (auto [result, parts] : expandGradients(block))
        result.getDefiningOp()->erase();
  }
};

} // namespace
