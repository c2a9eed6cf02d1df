// SPDX-License-Identifier: Apache-2.0
// Operations over a sliding window: pool, arg_pool, and convolution where no library is called. The
// window is a row; its elements outside the input are skipped.
#include "ConditionalElement.h"
#include "LoweringModels.h"
#include "ReduceArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The row domain [result dimensions..., window dimensions...].
RowDomain windowDomain(ArrayRef<int64_t> result, ArrayRef<int64_t> window) {
  RowDomain domain;
  domain.shape = llvm::to_vector(result);
  for (int64_t size : window) {
    domain.rowDims.push_back(domain.shape.size());
    domain.shape.push_back(size);
  }
  return domain;
}

/// Bookkeeping of both pooling operations, which have the same attributes.
template <typename Op>
struct Window {
  explicit Window(Operation *op) : op(cast<Op>(op)) {}

  RowDomain domain() { return windowDomain(shapeOf(op.getResult()), op.getWindow()); }
  AffineMap map() {
    MLIRContext *context = op->getContext();
    int64_t rank = op.getWindow().size();
    SmallVector<AffineExpr> results;
    for (int64_t dim = 0; dim < rank; ++dim)
      results.push_back(getAffineDimExpr(dim, context) * op.getStrides()[dim] +
                        getAffineDimExpr(rank + dim, context) * op.getDilations()[dim] -
                        op.getPadBegin()[dim]);
    return AffineMap::get(2 * rank, 0, results, context);
  }
  /// Whether the window can leave the input along a dimension.
  bool mayLeave(int64_t dim) {
    int64_t last = (shapeOf(op.getResult())[dim] - 1) * op.getStrides()[dim] +
                   (op.getWindow()[dim] - 1) * op.getDilations()[dim] - op.getPadBegin()[dim];
    return op.getPadBegin()[dim] > 0 || last >= shapeOf(op.getInput())[dim];
  }
  SmallVector<int64_t> positionDims(bool all) {
    SmallVector<int64_t> dims;
    int64_t rank = op.getWindow().size();
    for (int64_t dim = 0; dim < rank; ++dim)
      if (all || mayLeave(dim))
        dims.append({dim, rank + dim});
    return dims;
  }
  /// Position of the window's current element along `dim` of the input; may be outside.
  Value position(OpBuilder &builder, ElementLoader &loader, int64_t dim) {
    Location loc = op.getLoc();
    int64_t rank = op.getWindow().size();
    Value stride = indexConstant(builder, loc, op.getStrides()[dim]);
    Value dilation = indexConstant(builder, loc, op.getDilations()[dim]);
    Value begin = indexConstant(builder, loc, op.getPadBegin()[dim]);
    Value base = arith::MulIOp::create(builder, loc, loader.index(builder, dim), stride);
    Value step = arith::MulIOp::create(builder, loc, loader.index(builder, rank + dim), dilation);
    return arith::SubIOp::create(builder, loc, arith::AddIOp::create(builder, loc, base, step),
                                 begin);
  }
  /// Whether the current element lies inside; null if it always does.
  Value inside(OpBuilder &builder, ElementLoader &loader) {
    Value result;
    for (int64_t dim = 0; dim < static_cast<int64_t>(op.getWindow().size()); ++dim) {
      if (!mayLeave(dim))
        continue;
      // One unsigned comparison checks both ends.
      Value fits = compareIndex(builder, op.getLoc(), arith::CmpIPredicate::ult,
                                position(builder, loader, dim), shapeOf(op.getInput())[dim]);
      result = emitAnd(builder, op.getLoc(), result, fits);
    }
    return result;
  }
  Value element(OpBuilder &builder, ElementLoader &loader,
                function_ref<Value(OpBuilder &)> outside) {
    Value condition = inside(builder, loader);
    if (!condition)
      return loader.load(builder, 0);
    return emitGuarded(
        builder, op.getLoc(), condition, getScalarType(elementTypeOf(op.getInput())),
        [&](OpBuilder &b) { return loader.load(b, 0); }, outside);
  }

  Op op;
};

struct PoolModel : ElementLoweringOpInterface::ExternalModel<PoolModel, PoolOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const { return Window<PoolOp>(op).map(); }
  RowDomain getRowDomain(Operation *op) const { return Window<PoolOp>(op).domain(); }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    return Window<PoolOp>(op).positionDims(false);
  }
  int64_t getReadsPerElement(Operation *op, unsigned) const {
    return llvm::product_of(cast<PoolOp>(op).getWindow());
  }
  int64_t getRowPassCount(Operation *) const { return 1; }

  static Value identity(PoolOp op, OpBuilder &builder) {
    Scalars s(builder, op.getLoc(), op.getType().getElementType());
    return reduceStart(s, op.getKind());
  }
  Value emitElement(Operation *, OpBuilder &, unsigned, ElementLoader &loader) const {
    return loader.rowValues()[0];
  }
  Value emitRowElement(Operation *op, OpBuilder &builder, int64_t, ElementLoader &loader) const {
    return Window<PoolOp>(op).element(builder, loader,
                                      [&](OpBuilder &b) { return identity(cast<PoolOp>(op), b); });
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t) const {
    return {identity(cast<PoolOp>(op), builder)};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t, Value element,
                                 ValueRange accumulators, ElementLoader &) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getResult(0)));
    return {reduceStep(s, cast<PoolOp>(op).getKind(), accumulators[0], element)};
  }
  SmallVector<Value> emitRowCombine(Operation *op, OpBuilder &builder, int64_t, ValueRange first,
                                    ValueRange second) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getResult(0)));
    return {reduceStep(s, cast<PoolOp>(op).getKind(), first[0], second[0])};
  }
};

/// Accumulators: the best element and its position, -1 before the first one inside the input.
struct ArgPoolModel : ElementLoweringOpInterface::ExternalModel<ArgPoolModel, ArgPoolOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const { return Window<ArgPoolOp>(op).map(); }
  RowDomain getRowDomain(Operation *op) const { return Window<ArgPoolOp>(op).domain(); }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    return Window<ArgPoolOp>(op).positionDims(true);
  }
  int64_t getReadsPerElement(Operation *op, unsigned) const {
    return llvm::product_of(cast<ArgPoolOp>(op).getWindow());
  }
  int64_t getRowPassCount(Operation *) const { return 1; }
  // The first of equal elements counts.
  bool isRowDivisible(Operation *) const { return false; }

  Value emitElement(Operation *, OpBuilder &, unsigned, ElementLoader &loader) const {
    return loader.rowValues()[1];
  }
  Value emitRowElement(Operation *op, OpBuilder &builder, int64_t, ElementLoader &loader) const {
    return Window<ArgPoolOp>(op).element(builder, loader, [&](OpBuilder &b) {
      return Scalars(b, op->getLoc(), elementTypeOf(op->getOperand(0))).lowest();
    });
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getOperand(0)));
    return {s.lowest(), Scalars(builder, op->getLoc(), builder.getI64Type()).integer(-1)};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t, Value element,
                                 ValueRange accumulators, ElementLoader &loader) const {
    auto pool = cast<ArgPoolOp>(op);
    Location loc = op->getLoc();
    Window<ArgPoolOp> window(op);
    Scalars s(builder, loc, elementTypeOf(pool.getInput()));
    Scalars positions(builder, loc, builder.getI64Type());
    Value isFirst = positions.compare("lt", accumulators[1], positions.integer(0));
    Value better = s.compare("gt", element, accumulators[0]);
    better = s.math<arith::OrIOp>(isFirst, better);
    better = emitAnd(builder, loc, window.inside(builder, loader), better);
    ArrayRef<int64_t> shape = shapeOf(pool.getInput());
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    if (pool.getColumnMajor() && shape.size() > 2)
      std::reverse(order.begin() + 2, order.end());
    Value position = indexConstant(builder, loc, 0);
    for (int64_t dim : order) {
      Value extent = indexConstant(builder, loc, shape[dim]);
      position = arith::MulIOp::create(builder, loc, position, extent);
      position =
          arith::AddIOp::create(builder, loc, position, window.position(builder, loader, dim));
    }
    position = arith::IndexCastOp::create(builder, loc, builder.getI64Type(), position);
    return {s.select(better, element, accumulators[0]),
            s.select(better, position, accumulators[1])};
  }
};

/// Row domain [batch, out channel, spatial..., channel within the group, kernel...].
struct ConvolutionModel
    : ElementLoweringOpInterface::ExternalModel<ConvolutionModel, ConvolutionOp> {
  static int64_t spatialRank(ConvolutionOp op) { return op.getStrides().size(); }

  RowDomain getRowDomain(Operation *op) const {
    auto conv = cast<ConvolutionOp>(op);
    return windowDomain(shapeOf(conv.getResult()), shapeOf(conv.getFilter()).drop_front());
  }
  AffineMap getOperandMap(Operation *op, unsigned operand) const {
    auto conv = cast<ConvolutionOp>(op);
    MLIRContext *context = op->getContext();
    int64_t spatial = spatialRank(conv), rank = spatial + 2, domain = rank + spatial + 1;
    auto dim = [&](int64_t i) { return getAffineDimExpr(i, context); };
    SmallVector<AffineExpr> results;
    if (operand == 1) {
      results.push_back(dim(1));
      for (int64_t i = rank; i < domain; ++i)
        results.push_back(dim(i));
      return AffineMap::get(domain, 0, results, context);
    }
    int64_t perGroup = shapeOf(conv.getFilter())[1];
    int64_t outPerGroup = shapeOf(conv.getFilter())[0] / conv.getGroups();
    results.push_back(dim(0));
    AffineExpr channel = dim(rank);
    if (conv.getGroups() > 1)
      channel = dim(1).floorDiv(outPerGroup) * perGroup + channel;
    results.push_back(channel);
    for (int64_t i = 0; i < spatial; ++i) {
      AffineExpr position = dim(2 + i) * conv.getStrides()[i] +
                            dim(rank + 1 + i) * conv.getFilterDilation()[i] - conv.getPadBegin()[i];
      results.push_back(position.floorDiv(conv.getInputDilation()[i]));
    }
    return AffineMap::get(domain, 0, results, context);
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    int64_t spatial = spatialRank(cast<ConvolutionOp>(op)), rank = spatial + 2;
    SmallVector<int64_t> dims;
    for (int64_t i = 0; i < spatial; ++i)
      dims.append({2 + i, rank + 1 + i});
    return dims;
  }
  int64_t getReadsPerElement(Operation *op, unsigned operand) const {
    return operand == 0 ? llvm::product_of(shapeOf(op->getOperand(1)).drop_front()) : 1 << 20;
  }
  int64_t getElementCost(Operation *) const { return 64; }
  int64_t getRowPassCount(Operation *) const { return 1; }

  Value emitElement(Operation *, OpBuilder &, unsigned, ElementLoader &loader) const {
    return loader.rowValues()[0];
  }
  /// Position along a spatial dimension of the spread input.
  static Value position(ConvolutionOp conv, OpBuilder &builder, ElementLoader &loader, int64_t i) {
    Location loc = conv.getLoc();
    Value base = arith::MulIOp::create(builder, loc, loader.index(builder, 2 + i),
                                       indexConstant(builder, loc, conv.getStrides()[i]));
    Value step =
        arith::MulIOp::create(builder, loc, loader.index(builder, spatialRank(conv) + 3 + i),
                              indexConstant(builder, loc, conv.getFilterDilation()[i]));
    Value sum = arith::AddIOp::create(builder, loc, base, step);
    return arith::SubIOp::create(builder, loc, sum,
                                 indexConstant(builder, loc, conv.getPadBegin()[i]));
  }
  Value emitRowElement(Operation *op, OpBuilder &builder, int64_t, ElementLoader &loader) const {
    auto conv = cast<ConvolutionOp>(op);
    Location loc = op->getLoc();
    Value inside;
    for (int64_t i = 0; i < spatialRank(conv); ++i) {
      Value place = position(conv, builder, loader, i);
      int64_t dilation = conv.getInputDilation()[i];
      int64_t extent = (shapeOf(conv.getInput())[2 + i] - 1) * dilation + 1;
      inside = emitAnd(builder, loc, inside,
                       compareIndex(builder, loc, arith::CmpIPredicate::ult, place, extent));
      if (dilation == 1)
        continue;
      Value phase =
          arith::RemUIOp::create(builder, loc, place, indexConstant(builder, loc, dilation));
      inside = emitAnd(builder, loc, inside,
                       compareIndex(builder, loc, arith::CmpIPredicate::eq, phase, 0));
    }
    Type element = elementTypeOf(conv.getResult());
    auto product = [&](OpBuilder &b) {
      Scalars s(b, loc, element);
      return s.mulRelaxed(loader.load(b, 0), loader.load(b, 1));
    };
    if (!inside)
      return product(builder);
    return emitGuarded(builder, loc, inside, getScalarType(element), product,
                       [&](OpBuilder &b) { return Scalars(b, loc, element).integer(0); });
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t) const {
    return {Scalars(builder, op->getLoc(), elementTypeOf(op->getResult(0))).integer(0)};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t, Value element,
                                 ValueRange accumulators, ElementLoader &) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getResult(0)));
    return {s.addRelaxed(accumulators[0], element)};
  }
  SmallVector<Value> emitRowCombine(Operation *op, OpBuilder &builder, int64_t, ValueRange first,
                                    ValueRange second) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getResult(0)));
    return {s.addRelaxed(first[0], second[0])};
  }
};

} // namespace

void autopar::attachWindowModels(MLIRContext &context) {
  PoolOp::attachInterface<PoolModel>(context);
  ArgPoolOp::attachInterface<ArgPoolModel>(context);
  ConvolutionOp::attachInterface<ConvolutionModel>(context);
}
