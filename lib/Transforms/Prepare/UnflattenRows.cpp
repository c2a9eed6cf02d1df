// SPDX-License-Identifier: Apache-2.0
// The pass autopar-unflatten-rows: exporters merge batch and sequence into rows around a matrix
// product; here they stay apart, so that each can be sharded by itself.
#include "DimensionSplitter.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_UNFLATTENROWSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Splits a dimension that `reshape` cuts apart where it was merged; false if there is none.
bool unflatten(ReshapeOp reshape, ParameterShape &parameters) {
  Value value = reshape.getInput();
  Operation *op = value.getDefiningOp();
  if (!op || isa<ReshapeOp>(op) || !DimensionSplitter::isFollowed(op) || !value.hasOneUse())
    return false;
  for (int64_t dim = 0; dim < reshape.getInput().getType().getRank(); ++dim) {
    std::optional<int64_t> part = majorPart(reshape, dim);
    if (!part)
      continue;
    DimensionSplitter splitter(parameters, reshape.getType().getDimSize(*part),
                               /*endsAtReshapes=*/true);
    if (!splitter.canSplit(value, dim))
      continue;
    reshape.setOperand(splitter.split(value, dim));
    splitter.eraseReplaced();
    return true;
  }
  return false;
}

struct UnflattenRowsPass : mlir::autopar::impl::UnflattenRowsPassBase<UnflattenRowsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      ParameterShape parameters(function);
      // Rewriting removes operations before the reshape only, and those are done.
      SmallVector<ReshapeOp> reshapes(function.getOps<ReshapeOp>());
      for (ReshapeOp reshape : reshapes) {
        bool changed = false;
        while (unflatten(reshape, parameters))
          changed = true;
        if (changed && reshape.getInput().getType() == reshape.getType()) {
          reshape.getResult().replaceAllUsesWith(reshape.getInput());
          reshape.erase();
        }
      }
      parameters.finish();
    }
  }
};

} // namespace
