// SPDX-License-Identifier: Apache-2.0
// The pass autopar-split-reductions: a kernel gives each row at most one block of threads, so a
// reduction with few results and many elements would leave most of a GPU idle. It becomes one of
// parts and one of their results.
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Stages.h"
#include "autopar/Transforms/TrainingEpilogues.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SPLITREDUCTIONSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Blocks from which on more of them do not make a GPU faster.
constexpr int64_t manyBlocks = 1024;
/// Elements of a row that keep one block busy: where neighbouring elements belong to one row, and
/// where they belong to different rows, of which a block takes some.
constexpr int64_t partAlong = 16384, partAcross = 256, columnsOfBlock = 128;

/// Neighbouring dimensions, all of them reduced or none.
struct Run {
  int64_t extent = 1;
  bool isReduced = false;
};

SmallVector<Run> runsOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> reduced) {
  SmallVector<Run> runs;
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    bool isReduced = llvm::is_contained(reduced, static_cast<int64_t>(dim));
    if (extent == 1)
      continue;
    if (runs.empty() || runs.back().isReduced != isReduced)
      runs.push_back({1, isReduced});
    runs.back().extent *= extent;
  }
  return runs;
}

/// The largest divisor of `extent` up to `most` that leaves parts of a multiple of `unit` elements;
/// 1 if there is none.
int64_t partsOf(int64_t extent, int64_t most, int64_t unit) {
  for (int64_t parts = std::min(most, extent / 2); parts > 1; --parts)
    if (extent % parts == 0 && extent / parts % unit == 0)
      return parts;
  return 1;
}

struct SplitReductionsPass : mlir::autopar::impl::SplitReductionsPassBase<SplitReductionsPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<EpilogueMode> chosen = epilogueModeOf(getOperation(), biases);
    if (failed(chosen))
      return signalPassFailure();
    if (*chosen == EpilogueMode::Automatic)
      for (Block &block : getOperation().getBody())
        leaveToProducts(block);
    SmallVector<ReduceOp> reductions;
    getOperation().walk([&](ReduceOp op) {
      if (!op->hasAttr(kSummedByProduct))
        reductions.push_back(op);
    });
    for (ReduceOp op : reductions)
      split(op);
  }

private:
  void leaveToProducts(Block &block) {
    MicroBatches phases(block);
    StagePlaces stages(getOperation());
    // What runs at other times or places is no one call.
    auto isTogether = [&](Operation *one, Operation *other) {
      return phases.phaseOf(one) == phases.phaseOf(other) && stages.areTogether(one, other);
    };
    auto isWanted = [&](DotGeneralOp product, ReduceOp sum) {
      return !hasOtherEpilogue(product) && isTogether(product, sum);
    };
    for (auto [product, sum] : sumsOfProducts(block, isWanted))
      sum->setAttr(kSummedByProduct, UnitAttr::get(sum->getContext()));
  }

  static void split(ReduceOp op) {
    SmallVector<Run> runs = runsOf(op.getInput().getType().getShape(), op.getDims());
    if (runs.empty())
      return;
    int64_t elements = 1, results = 1;
    for (const Run &run : runs)
      (run.isReduced ? elements : results) *= run.extent;
    bool isAcross = !runs.back().isReduced;
    int64_t blocks =
        isAcross ? static_cast<int64_t>(llvm::divideCeil(results, columnsOfBlock)) : results;
    if (elements == 0 || blocks == 0)
      return;
    int64_t most = std::min(elements / (isAcross ? partAcross : partAlong), manyBlocks / blocks);
    // Parts of the innermost dimension start at multiples of 16 bytes where that is possible.
    constexpr int64_t vector = 8;
    size_t chosen = 0;
    int64_t parts = 1;
    for (auto [number, run] : llvm::enumerate(runs)) {
      if (!run.isReduced)
        continue;
      bool isInner = number + 1 == runs.size();
      int64_t own = partsOf(run.extent, most, isInner ? vector : 1);
      if (own == 1 && isInner)
        own = partsOf(run.extent, most, 1);
      if (own > parts)
        chosen = number, parts = own;
    }
    if (parts > 1)
      rewrite(op, runs, chosen, parts);
  }

  static void rewrite(ReduceOp op, ArrayRef<Run> runs, size_t chosen, int64_t parts) {
    OpBuilder builder(op);
    RankedTensorType type = op.getType();
    Type element = type.getElementType(), wide = element;
    if (element.isF16() || element.isBF16())
      wide = builder.getF32Type(); // as the sum within a kernel is
    SmallVector<int64_t> shape, dims;
    int64_t kept = 0, place = 0;
    for (auto [number, run] : llvm::enumerate(runs)) {
      if (number == chosen) {
        place = kept++;
        shape.append({parts, run.extent / parts});
        dims.push_back(shape.size() - 1);
        continue;
      }
      if (run.isReduced)
        dims.push_back(shape.size());
      else
        ++kept;
      shape.push_back(run.extent);
    }
    auto named = [&](Operation *made, const Twine &suffix) { return madeFrom(op, made, suffix); };
    Value value = op.getInput();
    if (wide != element)
      value =
          named(CastOp::create(builder, op.getLoc(), op.getInput().getType().clone(wide), value),
                "/widened");
    value =
        named(ReshapeOp::create(builder, op.getLoc(), RankedTensorType::get(shape, wide), value),
              "/divided");
    value = named(ReduceOp::create(builder, op.getLoc(), op.getKind(), value, dims), "/parts");
    value = named(ReduceOp::create(builder, op.getLoc(), op.getKind(), value, {place}), "/joined");
    if (value.getType() != type.clone(wide))
      value = named(ReshapeOp::create(builder, op.getLoc(), type.clone(wide), value), "/shaped");
    if (wide != element)
      value = named(CastOp::create(builder, op.getLoc(), type, value), "/narrowed");
    setOpId(value.getDefiningOp(), getOpId(op));
    op.getResult().replaceAllUsesWith(value);
    op.erase();
  }
};

} // namespace
