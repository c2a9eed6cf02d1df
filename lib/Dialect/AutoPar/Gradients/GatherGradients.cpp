// SPDX-License-Identifier: Apache-2.0
// Gradients of gather and scatter, which are each other's.
#include "GradientModels.h"

#include "autopar/Dialect/AutoPar/IR/PaddingIndex.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

template <typename Model, typename Op>
using Gradient = GradientOpInterface::ExternalModel<Model, Op>;

/// The indices of a gather as positions inside the input.
Value scatterPositions(FormulaBuilder &b, GatherOp gather) {
  RankedTensorType type = gather.getIndices().getType();
  ArrayRef<int64_t> shape = gather.getInput().getType().getShape();
  SmallVector<APInt> extents;
  for (int64_t dim : gather.getDims())
    extents.emplace_back(type.getElementTypeBitWidth(), shape[dim]);
  RankedTensorType line = type.clone(ArrayRef<int64_t>{static_cast<int64_t>(extents.size())});
  Value limits = ConstantOp::create(b.builder, b.loc, DenseElementsAttr::get(line, extents));
  limits =
      BroadcastOp::create(b.builder, b.loc, type, limits, ArrayRef<int64_t>{type.getRank() - 1});
  Value positions = b.clampPositions(gather.getIndices(), limits);
  auto padding = gather->getAttrOfType<IntegerAttr>(kPaddingIndexAttribute);
  if (!padding)
    return positions;
  // What lies outside changes nothing.
  Value isPadding = b.compare(ComparePredicate::Eq, positions,
                              b.splatLike(positions, static_cast<double>(padding.getInt())));
  return b.select(isPadding, limits, positions);
}

// Scatter wants the indexed dimensions first: input [batch, pre, dims, post] is built as
// [batch, dims, pre, post] from updates [batch, S, pre, post].
struct GatherGradient : Gradient<GatherGradient, GatherOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto gather = cast<GatherOp>(op);
    FormulaBuilder b(builder, op);
    RankedTensorType input = gather.getInput().getType();
    int64_t batch = gather.getBatchDims(), first = gather.getDims().front(),
            count = gather.getDims().size(),
            spread = gather.getIndices().getType().getRank() - 1 - batch;
    SmallVector<int64_t> toInput, toUpdates;
    auto take = [](SmallVector<int64_t> &order, int64_t begin, int64_t end) {
      for (int64_t dim = begin; dim < end; ++dim)
        order.push_back(dim);
    };
    take(toInput, 0, batch);
    take(toInput, first, first + count);
    take(toInput, batch, first);
    take(toInput, first + count, input.getRank());
    take(toUpdates, 0, batch);
    take(toUpdates, first, first + spread);
    take(toUpdates, batch, first);
    take(toUpdates, first + spread, gather.getType().getRank());
    SmallVector<int64_t> shape;
    for (int64_t dim : toInput)
      shape.push_back(input.getDimSize(dim));
    Value positions = scatterPositions(b, gather);
    Value updates = b.transpose(cotangents[0], toUpdates);
    Value sum = ScatterOp::create(builder, op->getLoc(), input.clone(shape), ScatterKind::Add,
                                  b.zeros(input.clone(shape)), positions, updates, batch);
    return b.transpose(sum, inverted(toInput));
  }
};

struct GatherElementsGradient : Gradient<GatherElementsGradient, GatherElementsOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto gather = cast<GatherElementsOp>(op);
    FormulaBuilder b(builder, op);
    RankedTensorType input = gather.getInput().getType();
    return Value(ScatterElementsOp::create(builder, op->getLoc(), input, ScatterKind::Add,
                                           b.zeros(input), gather.getIndices(), cotangents[0],
                                           gather.getDim()));
  }
};

/// What is added to keeps its cotangent; what is overwritten loses it; updates read theirs where
/// they went.
template <typename Model, typename Op>
struct ScatterGradientOf : Gradient<Model, Op> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto scatter = cast<Op>(op);
    Value g = cotangents[0];
    bool adds = scatter.getKind() == ScatterKind::Add;
    if (!adds && scatter.getKind() != ScatterKind::Assign)
      return noGradient(op, "only scatters that add or assign are differentiated, not " +
                                stringifyScatterKind(scatter.getKind()));
    if (operand != 0)
      return Model::gathered(scatter, builder, g);
    FormulaBuilder b(builder, op);
    return adds ? g
                : Model::overwritten(scatter, builder, g, b.zeros(scatter.getUpdates().getType()));
  }
};

struct ScatterGradient : ScatterGradientOf<ScatterGradient, ScatterOp> {
  static Value overwritten(ScatterOp op, OpBuilder &builder, Value g, Value zeros) {
    return ScatterOp::create(builder, op.getLoc(), g.getType(), ScatterKind::Assign, g,
                             op.getIndices(), zeros, op.getBatchDims());
  }
  static Value gathered(ScatterOp op, OpBuilder &builder, Value g) {
    int64_t batch = op.getBatchDims(), depth = op.getIndices().getType().getShape().back();
    return GatherOp::create(builder, op.getLoc(), op.getUpdates().getType(), g, op.getIndices(),
                            llvm::to_vector(llvm::seq<int64_t>(batch, batch + depth)), batch);
  }
};

struct ScatterElementsGradient : ScatterGradientOf<ScatterElementsGradient, ScatterElementsOp> {
  static Value overwritten(ScatterElementsOp op, OpBuilder &builder, Value g, Value zeros) {
    return ScatterElementsOp::create(builder, op.getLoc(), g.getType(), ScatterKind::Assign, g,
                                     op.getIndices(), zeros, op.getDim());
  }
  static Value gathered(ScatterElementsOp op, OpBuilder &builder, Value g) {
    return GatherElementsOp::create(builder, op.getLoc(), op.getUpdates().getType(), g,
                                    op.getIndices(), op.getDim());
  }
};

} // namespace

void mlir::autopar::attachGatherGradients(MLIRContext &context) {
  GatherOp::attachInterface<GatherGradient>(context);
  GatherElementsOp::attachInterface<GatherElementsGradient>(context);
  ScatterOp::attachInterface<ScatterGradient>(context);
  ScatterElementsOp::attachInterface<ScatterElementsGradient>(context);
}
