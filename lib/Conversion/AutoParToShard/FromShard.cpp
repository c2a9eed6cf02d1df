// SPDX-License-Identifier: Apache-2.0
// The pass autopar-from-shard.
#include "ShardCollectives.h"

#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_FROMSHARDPASS
#include "autopar/Conversion/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct FromShardPass : mlir::autopar::impl::FromShardPassBase<FromShardPass> {
  void runOnOperation() override {
    for (shard::GridOp grid : llvm::make_early_inc_range(getOperation().getOps<shard::GridOp>()))
      convertGrid(grid);
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (op->getDialect() && op->getDialect()->getNamespace() == "shard")
        ops.push_back(op);
    });
    for (Operation *op : ops)
      if (failed(convert(op)))
        return signalPassFailure();
  }

private:
  void convertGrid(shard::GridOp grid) {
    OpBuilder builder(grid);
    auto names = grid->getAttrOfType<ArrayAttr>("autopar.axes");
    if (!names) {
      SmallVector<Attribute> made;
      for (size_t i = 0; i < grid.getShape().size(); ++i)
        made.push_back(builder.getStringAttr("axis" + Twine(i)));
      names = builder.getArrayAttr(made);
    }
    meshes[grid.getSymNameAttr()] = names;
    MeshOp::create(builder, grid.getLoc(), grid.getSymNameAttr(), names, grid.getShapeAttr(),
                   DenseI64ArrayAttr());
    grid.erase();
  }

  LogicalResult convert(Operation *op) {
    if (auto slice = dyn_cast<shard::AllSliceOp>(op))
      return convertSlice(slice);
    FailureOr<Operation *> same = collectiveInOther(op, meshes);
    if (failed(same))
      return failure();
    if (!*same)
      return op->emitOpError("has no equal in AutoPar");
    op->replaceAllUsesWith(*same);
    op->erase();
    return success();
  }

  LogicalResult convertSlice(shard::AllSliceOp slice) {
    FailureOr<Attribute> axes =
        axesInOther(slice, slice.getGridAttr(), slice.getGridAxesAttr(), meshes);
    if (failed(axes))
      return failure();
    OpBuilder builder(slice);
    int64_t dim = slice.getSliceAxis().getSExtValue();
    int64_t extent = cast<RankedTensorType>(slice.getType()).getDimSize(dim);
    slice.replaceAllUsesWith(buildOwnShard(builder, slice.getLoc(), slice.getInput(), dim, extent,
                                           slice.getGridAttr(), cast<ArrayAttr>(*axes)));
    slice.erase();
    return success();
  }

  AxisNames meshes;
};

} // namespace
