// SPDX-License-Identifier: Apache-2.0
// The pass autopar-limit-inputs: what the program takes from an input tells which values it may
// hold, so that the runtime can refuse others before they do harm.
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/InputLimits.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_LIMITINPUTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {
constexpr StringRef kLimits = "autopar.limits", kException = "autopar.exception";

/// The input whose elements are those of `value`, or null.
BlockArgument inputOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isWholeView(op) && !isa<CastOp, BroadcastOp>(op))
      return {};
    value = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(value);
  auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(argument.getType()));
  return type && type.getWidth() > 1 && isFed(argument) ? argument : BlockArgument();
}

struct LimitInputsPass : mlir::autopar::impl::LimitInputsPassBase<LimitInputsPass> {
  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (auto gather = dyn_cast<GatherOp>(op))
        return limitPositions(gather);
      if (auto gather = dyn_cast<GatherElementsOp>(op))
        return limitTo(gather.getIndices(),
                       gather.getInput().getType().getDimSize(gather.getDim()));
      auto limits = op->getAttrOfType<DenseI64ArrayAttr>(kLimits);
      if (limits && op->getNumOperands() > 0) {
        std::optional<int64_t> exception;
        if (auto given = op->getAttrOfType<IntegerAttr>(kException))
          exception = given.getInt();
        limitInput(op->getOperands().back(), limits[0], limits[1], exception);
        op->removeAttr(kLimits);
        op->removeAttr(kException);
      }
    });
  }

private:
  /// Positions in several dimensions: none reaches past the longest.
  static void limitPositions(GatherOp gather) {
    int64_t longest = 0;
    for (int64_t dim : gather.getDims())
      longest = std::max(longest, gather.getInput().getType().getDimSize(dim));
    limitTo(gather.getIndices(), longest);
  }

  /// Negative positions count from the end.
  static void limitTo(Value positions, int64_t extent) {
    if (extent > 0)
      limitInput(positions, -extent, extent - 1);
  }
};
} // namespace

void mlir::autopar::limitInput(Value value, int64_t least, int64_t most,
                               std::optional<int64_t> exception) {
  BlockArgument argument = inputOf(value);
  if (!argument)
    return;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  unsigned number = argument.getArgNumber();
  if (auto before = function.getArgAttrOfType<DenseI64ArrayAttr>(number, kLimits)) {
    std::optional<int64_t> own;
    if (auto given = function.getArgAttrOfType<IntegerAttr>(number, kException))
      own = given.getInt();
    auto allows = [](int64_t x, int64_t first, int64_t last, std::optional<int64_t> besides) {
      return (x >= first && x <= last) || besides == x;
    };
    if (exception && !allows(*exception, before[0], before[1], own))
      exception.reset();
    if (own && !exception && allows(*own, least, most, std::nullopt))
      exception = own;
    least = std::max(least, before[0]);
    most = std::min(most, before[1]);
    if (least > most)
      return; // nothing could be given; the program decides
  }
  Builder builder(function.getContext());
  function.setArgAttr(number, kLimits, builder.getDenseI64ArrayAttr({least, most}));
  function.removeArgAttr(number, kException);
  if (exception)
    function.setArgAttr(number, kException, builder.getI64IntegerAttr(*exception));
}
