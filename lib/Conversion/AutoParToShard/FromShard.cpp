// SPDX-License-Identifier: Apache-2.0
// The pass autopar-from-shard.
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

static std::optional<ReduceKind> reduceKind(shard::ReductionKind kind) {
  switch (kind) {
  case shard::ReductionKind::Sum:
    return ReduceKind::Sum;
  case shard::ReductionKind::Product:
    return ReduceKind::Prod;
  case shard::ReductionKind::Max:
    return ReduceKind::Max;
  case shard::ReductionKind::Min:
    return ReduceKind::Min;
  case shard::ReductionKind::BitwiseAnd:
    return ReduceKind::And;
  case shard::ReductionKind::BitwiseOr:
    return ReduceKind::Or;
  default:
    return std::nullopt;
  }
}

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

  FailureOr<ArrayAttr> axesOf(Operation *op, FlatSymbolRefAttr grid,
                              ArrayRef<shard::GridAxis> numbers) {
    ArrayAttr names = meshes.lookup(grid.getAttr());
    if (!names)
      return op->emitOpError() << "refers to grid " << grid << ", which does not exist";
    SmallVector<Attribute> axes;
    for (shard::GridAxis number : numbers) // within the grid: the shard dialect has verified that
      axes.push_back(names[number]);
    return ArrayAttr::get(op->getContext(), axes);
  }

  template <typename Op, typename Build>
  LogicalResult rewrite(Op op, Build build) {
    FailureOr<ArrayAttr> axes = axesOf(op, op.getGridAttr(), op.getGridAxes());
    if (failed(axes))
      return failure();
    OpBuilder builder(op);
    Value result = build(builder, *axes);
    if (!result)
      return failure();
    op.getResult().replaceAllUsesWith(result);
    op.erase();
    return success();
  }

  LogicalResult convert(Operation *op) {
    Location loc = op->getLoc();
    auto known = [&](shard::ReductionKind kind) {
      std::optional<ReduceKind> reduction = reduceKind(kind);
      if (!reduction)
        op->emitOpError("has a reduction that AutoPar has no equal for");
      return reduction;
    };
    if (auto reduce = dyn_cast<shard::AllReduceOp>(op))
      return rewrite(reduce, [&](OpBuilder &builder, ArrayAttr axes) -> Value {
        std::optional<ReduceKind> kind = known(reduce.getReduction());
        return kind ? AllReduceOp::create(builder, loc, reduce.getType(), *kind, reduce.getInput(),
                                          reduce.getGrid(), axes)
                    : Value();
      });
    if (auto gather = dyn_cast<shard::AllGatherOp>(op))
      return rewrite(gather, [&](OpBuilder &builder, ArrayAttr axes) -> Value {
        return AllGatherOp::create(builder, loc, gather.getType(), gather.getInput(),
                                   gather.getGatherAxis().getSExtValue(), gather.getGrid(), axes);
      });
    if (auto scatter = dyn_cast<shard::ReduceScatterOp>(op))
      return rewrite(scatter, [&](OpBuilder &builder, ArrayAttr axes) -> Value {
        std::optional<ReduceKind> kind = known(scatter.getReduction());
        return kind ? ReduceScatterOp::create(
                          builder, loc, scatter.getType(), *kind, scatter.getInput(),
                          scatter.getScatterAxis().getSExtValue(), scatter.getGrid(), axes)
                    : Value();
      });
    if (auto exchange = dyn_cast<shard::AllToAllOp>(op))
      return rewrite(exchange, [&](OpBuilder &builder, ArrayAttr axes) -> Value {
        return AllToAllOp::create(builder, loc, exchange.getType(), exchange.getInput(),
                                  exchange.getSplitAxis().getSExtValue(),
                                  exchange.getConcatAxis().getSExtValue(), exchange.getGrid(),
                                  axes);
      });
    if (auto slice = dyn_cast<shard::AllSliceOp>(op))
      return rewrite(slice, [&](OpBuilder &builder, ArrayAttr axes) -> Value {
        int64_t dim = slice.getSliceAxis().getSExtValue();
        return buildOwnShard(builder, loc, slice.getInput(), dim,
                             cast<RankedTensorType>(slice.getType()).getDimSize(dim),
                             slice.getGridAttr(), axes);
      });
    return op->emitOpError("has no equal in AutoPar");
  }

  DenseMap<StringAttr, ArrayAttr> meshes;
};

} // namespace
