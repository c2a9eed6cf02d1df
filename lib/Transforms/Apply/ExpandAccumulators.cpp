// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-accumulators: an accumulation becomes an addition to what the micro-batch
// before handed on, so that the addition can join the kernel or library call that makes the value.
#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDACCUMULATORSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

/// Short floats are summed in f32.
static RankedTensorType accumulatorType(RankedTensorType type) {
  bool isShort = type.getElementType().isBF16() || type.getElementType().isF16();
  return isShort ? type.clone(Float32Type::get(type.getContext())) : type;
}

namespace {
struct ExpandAccumulatorsPass
    : public mlir::autopar::impl::ExpandAccumulatorsPassBase<ExpandAccumulatorsPass> {
  void runOnOperation() override {
    int64_t number = 0;
    for (AccumulateOp op : llvm::make_early_inc_range(getOperation().getOps<AccumulateOp>()))
      expand(op, number++);
  }

private:
  static void expand(AccumulateOp op, int64_t number) {
    OpBuilder builder(op);
    auto type = cast<RankedTensorType>(op.getType());
    RankedTensorType wide = accumulatorType(type);
    auto named = [&](Operation *made, const Twine &suffix) {
      setOpId(made, getOpId(op) + suffix);
      return made->getResult(0);
    };
    Value input = op.getInput();
    if (wide != type)
      input = named(CastOp::create(builder, op.getLoc(), wide, input), "/widened");
    Value before =
        named(CarriedOp::create(builder, op.getLoc(), wide, number, op.getKind()), "/carried");
    BinaryKind combiner = combinerOf(static_cast<ReductionKind>(op.getKind()));
    Value sum = named(BinaryOp::create(builder, op.getLoc(), combiner, input, before), "");
    Value total = named(CarryOp::create(builder, op.getLoc(), wide, number, sum), "/carry");
    if (wide != type)
      total = named(CastOp::create(builder, op.getLoc(), type, total), "/narrowed");
    op.getResult().replaceAllUsesWith(total);
    op.erase();
  }
};
} // namespace
