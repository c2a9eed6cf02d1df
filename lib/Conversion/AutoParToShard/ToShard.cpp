// SPDX-License-Identifier: Apache-2.0
// The pass autopar-to-shard.
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

static shard::ReductionKind shardReduction(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
    return shard::ReductionKind::Sum;
  case ReduceKind::Prod:
    return shard::ReductionKind::Product;
  case ReduceKind::Max:
    return shard::ReductionKind::Max;
  case ReduceKind::Min:
    return shard::ReductionKind::Min;
  case ReduceKind::And:
    return shard::ReductionKind::BitwiseAnd;
  case ReduceKind::Or:
    return shard::ReductionKind::BitwiseOr;
  }
  llvm_unreachable("all kinds are handled");
}

namespace {

struct ToShardPass : mlir::autopar::impl::ToShardPassBase<ToShardPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (MeshOp mesh : getOperation().getOps<MeshOp>())
      meshes[mesh.getSymNameAttr()] = mesh;
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (op->getDialect() && op->getDialect()->getNamespace() == "autopar")
        ops.push_back(op);
    });
    // Slices of own shards first: their positions die with them.
    for (Operation *op : ops)
      if (auto slice = dyn_cast<DynamicSliceOp>(op))
        convertOwnShard(slice);
    for (Operation *op : ops)
      convert(op);
    for (auto &[name, mesh] : meshes)
      convertMesh(mesh);
    for (Operation *op : llvm::reverse(dead))
      if (op->use_empty())
        op->erase();
  }

private:
  /// Axis numbers of named axes.
  SmallVector<shard::GridAxis> axesOf(FlatSymbolRefAttr mesh, ArrayAttr axes) {
    SmallVector<shard::GridAxis> numbers;
    ArrayAttr names = meshes.lookup(mesh.getAttr()).getAxes();
    for (Attribute axis : axes)
      numbers.push_back(llvm::find(names, axis) - names.begin());
    return numbers;
  }

  void convertOwnShard(DynamicSliceOp slice) {
    std::optional<OwnShard> own = matchOwnShard(slice);
    if (!own)
      return;
    OpBuilder builder(slice);
    auto sliced = shard::AllSliceOp::create(
        builder, slice.getLoc(), slice.getType(), slice.getInput(), own->index.getMesh(),
        axesOf(own->index.getMeshAttr(), own->index.getAxes()), own->dim);
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
  }

  void convert(Operation *op) {
    OpBuilder builder(op);
    Location loc = op->getLoc();
    auto replace = [&](Operation *by) {
      op->replaceAllUsesWith(by->getResults());
      dead.insert(op);
    };
    if (auto reduce = dyn_cast<AllReduceOp>(op)) {
      replace(shard::AllReduceOp::create(builder, loc, reduce.getType(), reduce.getMesh(),
                                         axesOf(reduce.getMeshAttr(), reduce.getAxes()),
                                         reduce.getInput(), shardReduction(reduce.getKind())));
    } else if (auto gather = dyn_cast<AllGatherOp>(op)) {
      replace(shard::AllGatherOp::create(builder, loc, gather.getType(), gather.getMesh(),
                                         axesOf(gather.getMeshAttr(), gather.getAxes()),
                                         gather.getInput(), APInt(64, gather.getDim())));
    } else if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
      replace(shard::ReduceScatterOp::create(builder, loc, scatter.getType(), scatter.getMesh(),
                                             axesOf(scatter.getMeshAttr(), scatter.getAxes()),
                                             scatter.getInput(), shardReduction(scatter.getKind()),
                                             APInt(64, scatter.getDim())));
    } else if (auto exchange = dyn_cast<AllToAllOp>(op)) {
      replace(shard::AllToAllOp::create(builder, loc, exchange.getType(), exchange.getMesh(),
                                        axesOf(exchange.getMeshAttr(), exchange.getAxes()),
                                        exchange.getInput(), APInt(64, exchange.getSplitDim()),
                                        APInt(64, exchange.getConcatDim())));
    } else if (auto index = dyn_cast<ShardIndexOp>(op); index && !dead.contains(op)) {
      op->emitOpError(
          "feeds more than the slice of a shard, which the shard dialect cannot express");
      signalPassFailure();
    }
  }

  void convertMesh(MeshOp mesh) {
    OpBuilder builder(mesh);
    auto grid = shard::GridOp::create(builder, mesh.getLoc(), mesh.getSymName(), mesh.getSizes());
    grid->setAttr("autopar.axes", mesh.getAxes());
    mesh.erase();
  }

  DenseMap<StringAttr, MeshOp> meshes;
  llvm::SetVector<Operation *> dead;
};

} // namespace
