// SPDX-License-Identifier: Apache-2.0
// The pass autopar-optimize-collectives: peephole rewrites of collectives on local values.
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_OPTIMIZECOLLECTIVESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// all_reduce over axes, then only the block of `dim` at shard_index(axes) * extent: each rank
/// needs no more than its part of the sum.
struct ScatterReducedSlice : OpRewritePattern<DynamicSliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DynamicSliceOp slice, PatternRewriter &rewriter) const override {
    auto reduce = slice.getInput().getDefiningOp<AllReduceOp>();
    if (!reduce || !reduce->hasOneUse())
      return failure();
    auto whole = cast<RankedTensorType>(reduce.getType()),
         part = cast<RankedTensorType>(slice.getType());
    std::optional<OwnShard> shard = matchOwnShard(slice);
    if (!shard || shard->index.getMeshAttr() != reduce.getMeshAttr() ||
        shard->index.getAxesAttr() != reduce.getAxesAttr())
      return failure();
    auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(slice, reduce.getMeshAttr());
    if (!mesh || part.getDimSize(shard->dim) * mesh.axesSize(reduce.getAxes()) !=
                     whole.getDimSize(shard->dim))
      return failure();
    auto scatter =
        ReduceScatterOp::create(rewriter, reduce.getLoc(), part, reduce.getKind(),
                                reduce.getInput(), shard->dim, reduce.getMesh(), reduce.getAxes());
    if (Attribute id = reduce->getAttr("autopar.id"))
      scatter->setAttr("autopar.id", id);
    rewriter.replaceOp(slice, scatter.getResult());
    return success();
  }
};

/// What is gathered only to be rounded is rounded before.
struct GatherRounded : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp cast, PatternRewriter &rewriter) const override {
    auto gather = cast.getInput().getDefiningOp<AllGatherOp>();
    RankedTensorType to = cast.getType();
    auto from = dyn_cast<FloatType>(cast.getInput().getType().getElementType()),
         narrow = dyn_cast<FloatType>(to.getElementType());
    if (!gather || !gather->hasOneUse() || !from || !narrow || narrow.getWidth() >= from.getWidth())
      return failure();
    rewriter.setInsertionPoint(gather);
    auto part = cast.clone();
    part.getInputMutable().assign(gather.getInput());
    part.getResult().setType(to.clone(gather.getInput().getType().getShape()));
    rewriter.insert(part);
    auto whole = gather.clone();
    whole.getInputMutable().assign(part.getResult());
    whole.getResult().setType(to);
    rewriter.insert(whole);
    rewriter.replaceOp(cast, whole.getResult());
    rewriter.eraseOp(gather);
    return success();
  }
};

struct OptimizeCollectivesPass
    : mlir::autopar::impl::OptimizeCollectivesPassBase<OptimizeCollectivesPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<GatherRounded, ScatterReducedSlice>(&getContext());
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};

} // namespace
