// SPDX-License-Identifier: Apache-2.0
// The pass autopar-optimize-collectives: peephole rewrites of collectives on local values.
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"

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

struct OptimizeCollectivesPass
    : mlir::autopar::impl::OptimizeCollectivesPassBase<OptimizeCollectivesPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ScatterReducedSlice>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};

} // namespace
