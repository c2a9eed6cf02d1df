// SPDX-License-Identifier: Apache-2.0
// The pass autopar-to-shard.
#include "ShardCollectives.h"

#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_TOSHARDPASS
#include "autopar/Conversion/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct ToShardPass : mlir::autopar::impl::ToShardPassBase<ToShardPass> {
  void runOnOperation() override {
    for (MeshOp mesh : getOperation().getOps<MeshOp>())
      meshes[mesh.getSymNameAttr()] = mesh.getAxes();
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (op->getDialect() && op->getDialect()->getNamespace() == "autopar")
        ops.push_back(op);
    });
    // Slices of own shards first: their positions die with them.
    for (Operation *op : ops)
      if (auto slice = dyn_cast<DynamicSliceOp>(op); slice && failed(convertOwnShard(slice)))
        return signalPassFailure();
    for (Operation *op : ops)
      if (failed(convert(op)))
        return signalPassFailure();
    for (MeshOp mesh : llvm::make_early_inc_range(getOperation().getOps<MeshOp>()))
      convertMesh(mesh);
    for (Operation *op : llvm::reverse(dead))
      if (op->use_empty())
        op->erase();
  }

private:
  LogicalResult convertOwnShard(DynamicSliceOp slice) {
    std::optional<OwnShard> own = matchOwnShard(slice);
    if (!own)
      return success();
    FailureOr<Attribute> axes =
        axesInOther(slice, own->index.getMeshAttr(), own->index.getAxes(), meshes);
    if (failed(axes))
      return failure();
    OpBuilder builder(slice);
    auto sliced = shard::AllSliceOp::create(builder, slice.getLoc(), slice.getType(),
                                            slice.getInput(), own->index.getMesh(),
                                            cast<DenseI16ArrayAttr>(*axes).asArrayRef(), own->dim);
    slice.replaceAllUsesWith(sliced.getResult());
    for (Value start : slice.getStarts()) {
      if (auto product = start.getDefiningOp<BinaryOp>()) {
        for (Value factor : product->getOperands())
          dead.insert(factor.getDefiningOp());
        dead.insert(product);
      } else {
        dead.insert(start.getDefiningOp());
      }
    }
    dead.insert(slice);
    return success();
  }

  LogicalResult convert(Operation *op) {
    if (isa<ShardIndexOp>(op) && !dead.contains(op))
      return op->emitOpError(
          "feeds more than the slice of a shard, which the shard dialect cannot express");
    FailureOr<Operation *> same = collectiveInOther(op, meshes);
    if (failed(same))
      return failure();
    if (*same) {
      op->replaceAllUsesWith(*same);
      dead.insert(op);
    }
    return success();
  }

  void convertMesh(MeshOp mesh) {
    OpBuilder builder(mesh);
    auto grid = shard::GridOp::create(builder, mesh.getLoc(), mesh.getSymName(), mesh.getSizes());
    grid->setAttr("autopar.axes", mesh.getAxes());
    mesh.erase();
  }

  AxisNames meshes;
  llvm::SetVector<Operation *> dead;
};

} // namespace
