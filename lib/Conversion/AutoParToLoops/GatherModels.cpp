// SPDX-License-Identifier: Apache-2.0
// Elements at positions that are data: gather and gather_elements.
#include "DataPositions.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

SmallVector<int64_t> allDimensions(Operation *op) {
  return llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(op->getResult(0)).size()));
}

/// Negative positions count from the end; then clamped into [0, extent).
Value emitPosition(OpBuilder &builder, Location loc, Value position, int64_t extent) {
  return emitClamped(builder, loc, emitFromEnd(builder, loc, position, extent),
                     std::max<int64_t>(extent - 1, 0));
}

struct GatherModel : ElementLoweringOpInterface::ExternalModel<GatherModel, GatherOp> {
  AffineMap getOperandMap(Operation *, unsigned) const { return AffineMap(); }
  AffineMap getMapBesidesData(Operation *op, unsigned operand) const {
    auto gather = cast<GatherOp>(op);
    MLIRContext *context = op->getContext();
    int64_t rank = shapeOf(gather.getResult()).size(), first = gather.getDims().front(),
            batch = gather.getBatchDims(), spread = shapeOf(gather.getIndices()).size() - 1 - batch;
    SmallVector<AffineExpr> index;
    auto take = [&](int64_t from, int64_t to) {
      for (int64_t dim = from; dim < to; ++dim)
        index.push_back(getAffineDimExpr(dim, context));
    };
    if (operand == 0) {
      take(0, first);
      index.append(gather.getDims().size(), getAffineConstantExpr(0, context));
      take(first + spread, rank);
    } else {
      take(0, batch);
      take(first, first + spread);
      index.push_back(getAffineConstantExpr(0, context));
    }
    return AffineMap::get(rank, 0, index, context);
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const { return allDimensions(op); }
  int64_t getElementCost(Operation *) const { return 2; }

  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto gather = cast<GatherOp>(op);
    Location loc = op->getLoc();
    int64_t first = gather.getDims().front(), batch = gather.getBatchDims();
    int64_t spread = shapeOf(gather.getIndices()).size() - 1 - batch;
    // Where the index vector stands: batch dimensions, then those between the kept ones.
    SmallVector<Value> vector;
    for (int64_t dim = 0; dim < batch; ++dim)
      vector.push_back(loader.index(builder, dim));
    for (int64_t dim = 0; dim < spread; ++dim)
      vector.push_back(loader.index(builder, first + dim));
    vector.push_back(Value());
    SmallVector<Value> indices;
    for (int64_t dim = 0; dim < first; ++dim)
      indices.push_back(loader.index(builder, dim));
    for (auto [component, dim] : llvm::enumerate(gather.getDims())) {
      vector.back() = indexConstant(builder, loc, component);
      Value position = loader.load(builder, 1, vector);
      indices.push_back(emitPosition(builder, loc, position, shapeOf(gather.getInput())[dim]));
    }
    int64_t rank = shapeOf(gather.getResult()).size();
    for (int64_t dim = first + spread; dim < rank; ++dim)
      indices.push_back(loader.index(builder, dim));
    return loader.load(builder, 0, indices);
  }
};

struct GatherElementsModel
    : ElementLoweringOpInterface::ExternalModel<GatherElementsModel, GatherElementsOp> {
  AffineMap getOperandMap(Operation *op, unsigned operand) const {
    if (operand == 0)
      return AffineMap();
    return AffineMap::getMultiDimIdentityMap(shapeOf(op->getResult(0)).size(), op->getContext());
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const { return allDimensions(op); }

  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto gather = cast<GatherElementsOp>(op);
    int64_t along = gather.getDim();
    SmallVector<Value> indices;
    for (auto [dim, extent] : llvm::enumerate(shapeOf(gather.getInput()))) {
      if (static_cast<int64_t>(dim) == along)
        indices.push_back(emitPosition(builder, op->getLoc(), loader.load(builder, 1), extent));
      else
        indices.push_back(loader.index(builder, dim));
    }
    return loader.load(builder, 0, indices);
  }
};

} // namespace

void autopar::attachGatherModels(MLIRContext &context) {
  GatherOp::attachInterface<GatherModel>(context);
  GatherElementsOp::attachInterface<GatherElementsModel>(context);
}
