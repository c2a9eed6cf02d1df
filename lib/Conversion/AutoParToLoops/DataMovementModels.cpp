// SPDX-License-Identifier: Apache-2.0
// Operations that only say where their element comes from: broadcast, reshape, transpose, slice,
// pad, concat, dynamic_slice.
#include "ConditionalElement.h"
#include "DataPositions.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"
#include "autopar/Interfaces/IndexExpressions.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

SmallVector<AffineExpr> dimsOf(Operation *op) {
  SmallVector<AffineExpr> dims;
  for (unsigned dim = 0; dim < shapeOf(op->getResult(0)).size(); ++dim)
    dims.push_back(getAffineDimExpr(dim, op->getContext()));
  return dims;
}

AffineMap mapOf(Operation *op, ArrayRef<AffineExpr> results) {
  return AffineMap::get(shapeOf(op->getResult(0)).size(), 0, results, op->getContext());
}

/// An operation that is described completely by its operand map.
template <typename Model, typename Op>
struct MapModel : ElementLoweringOpInterface::ExternalModel<Model, Op> {
  Value emitElement(Operation *, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    return loader.load(builder, 0);
  }
  int64_t getElementCost(Operation *) const { return 0; }
};

struct BroadcastModel : MapModel<BroadcastModel, BroadcastOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const {
    auto broadcast = cast<BroadcastOp>(op);
    SmallVector<AffineExpr> results;
    for (auto [dim, size] : llvm::zip(broadcast.getDims(), shapeOf(broadcast.getInput())))
      results.push_back(size == 1 ? getAffineConstantExpr(0, op->getContext())
                                  : getAffineDimExpr(dim, op->getContext()));
    return mapOf(op, results);
  }
};

struct ReshapeModel : MapModel<ReshapeModel, ReshapeOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const {
    return reshapeMap(shapeOf(op->getOperand(0)), shapeOf(op->getResult(0)), op->getContext());
  }
};

struct TransposeModel : MapModel<TransposeModel, TransposeOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const {
    SmallVector<AffineExpr> dims = dimsOf(op), results(dims.size());
    for (auto [i, from] : llvm::enumerate(cast<TransposeOp>(op).getPermutation()))
      results[from] = dims[i];
    return mapOf(op, results);
  }
};

struct SliceModel : MapModel<SliceModel, SliceOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const {
    auto slice = cast<SliceOp>(op);
    SmallVector<AffineExpr> results;
    for (auto [dim, start, step] : llvm::zip(dimsOf(op), slice.getStarts(), slice.getSteps()))
      results.push_back(dim * step + start);
    return mapOf(op, results);
  }
};

struct PadModel : ElementLoweringOpInterface::ExternalModel<PadModel, PadOp> {
  AffineMap getOperandMap(Operation *op, unsigned operand) const {
    if (operand == 1)
      return mapOf(op, {});
    SmallVector<AffineExpr> results;
    for (auto [dim, low] : llvm::zip(dimsOf(op), cast<PadOp>(op).getLow()))
      results.push_back(dim - low);
    return mapOf(op, results);
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    SmallVector<int64_t> dims;
    auto input = shapeOf(op->getOperand(0)), result = shapeOf(op->getResult(0));
    for (auto [dim, size] : llvm::enumerate(result))
      if (input[dim] != size)
        dims.push_back(dim);
    return dims;
  }
  SmallVector<int64_t> getPositionBreaks(Operation *op, int64_t dim) const {
    int64_t low = cast<PadOp>(op).getLow()[dim];
    return {low, low + shapeOf(op->getOperand(0))[dim]};
  }
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto pad = cast<PadOp>(op);
    Location loc = op->getLoc();
    Value inside;
    auto require = [&](Value condition) { inside = emitAnd(builder, loc, inside, condition); };
    for (int64_t dim : getPositionDimensions(op)) {
      int64_t low = pad.getLow()[dim], end = low + shapeOf(pad.getInput())[dim];
      auto [first, last] =
          loader.range(dim).value_or(std::make_pair(int64_t{0}, shapeOf(pad.getResult())[dim] - 1));
      if (last < low || first >= end)
        return loader.load(builder, 1);
      Value index = loader.index(builder, dim);
      if (first < low)
        require(compareIndex(builder, loc, arith::CmpIPredicate::sge, index, low));
      if (last >= end)
        require(compareIndex(builder, loc, arith::CmpIPredicate::slt, index, end));
    }
    if (!inside)
      return loader.load(builder, 0);
    return emitGuarded(
        builder, loc, inside, getScalarType(pad.getType().getElementType()),
        [&](OpBuilder &b) { return loader.load(b, 0); },
        [&](OpBuilder &b) { return loader.load(b, 1); });
  }
  int64_t getElementCost(Operation *) const { return 1; }
};

struct ConcatModel : ElementLoweringOpInterface::ExternalModel<ConcatModel, ConcatOp> {
  static int64_t offsetOf(ConcatOp concat, unsigned operand) {
    int64_t offset = 0;
    for (unsigned i = 0; i < operand; ++i)
      offset += shapeOf(concat.getInputs()[i])[concat.getDim()];
    return offset;
  }
  AffineMap getOperandMap(Operation *op, unsigned operand) const {
    auto concat = cast<ConcatOp>(op);
    SmallVector<AffineExpr> results = dimsOf(op);
    results[concat.getDim()] = results[concat.getDim()] - offsetOf(concat, operand);
    return mapOf(op, results);
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    return {static_cast<int64_t>(cast<ConcatOp>(op).getDim())};
  }
  SmallVector<int64_t> getPositionBreaks(Operation *op, int64_t) const {
    auto concat = cast<ConcatOp>(op);
    SmallVector<int64_t> breaks;
    for (unsigned i = 1; i < concat.getInputs().size(); ++i)
      breaks.push_back(offsetOf(concat, i));
    return breaks;
  }
  /// A binary search over the operands.
  static Value emitRange(ConcatOp op, OpBuilder &builder, ElementLoader &loader, Value index,
                         ArrayRef<unsigned> operands) {
    if (operands.size() == 1)
      return loader.load(builder, operands.front());
    size_t half = operands.size() / 2;
    Value inFirst = compareIndex(builder, op.getLoc(), arith::CmpIPredicate::slt, index,
                                 offsetOf(op, operands[half]));
    return emitGuarded(
        builder, op.getLoc(), inFirst, getScalarType(op.getType().getElementType()),
        [&](OpBuilder &b) { return emitRange(op, b, loader, index, operands.take_front(half)); },
        [&](OpBuilder &b) { return emitRange(op, b, loader, index, operands.drop_front(half)); });
  }
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto concat = cast<ConcatOp>(op);
    SmallVector<unsigned> operands;
    auto range = loader.range(concat.getDim());
    for (auto [i, input] : llvm::enumerate(concat.getInputs())) {
      int64_t extent = shapeOf(input)[concat.getDim()], offset = offsetOf(concat, i);
      bool isNear = !range || (offset <= range->second && offset + extent > range->first);
      if (extent != 0 && isNear)
        operands.push_back(i);
    }
    if (operands.empty())
      return Scalars(builder, op->getLoc(), concat.getType().getElementType()).integer(0);
    Value index = operands.size() > 1 ? loader.index(builder, concat.getDim()) : Value();
    return emitRange(concat, builder, loader, index, operands);
  }
};

struct DynamicSliceModel
    : ElementLoweringOpInterface::ExternalModel<DynamicSliceModel, DynamicSliceOp> {
  AffineMap getOperandMap(Operation *op, unsigned operand) const {
    return operand == 0 ? AffineMap() : mapOf(op, {});
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    return llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(op->getResult(0)).size()));
  }
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto slice = cast<DynamicSliceOp>(op);
    Location loc = op->getLoc();
    SmallVector<Value> indices;
    Value inside;
    for (auto [dim, extent] : llvm::enumerate(shapeOf(slice.getInput()))) {
      Value start = emitClamped(builder, loc, loader.load(builder, 1 + dim), extent);
      Value index = arith::AddIOp::create(builder, loc, start, loader.index(builder, dim));
      Value fits = compareIndex(builder, loc, arith::CmpIPredicate::slt, index, extent);
      inside = emitAnd(builder, loc, inside, fits);
      indices.push_back(index);
    }
    if (!inside)
      return loader.load(builder, 0, indices);
    Type element = slice.getType().getElementType();
    return emitGuarded(
        builder, loc, inside, getScalarType(element),
        [&](OpBuilder &b) { return loader.load(b, 0, indices); },
        [&](OpBuilder &b) { return Scalars(b, loc, element).integer(0); });
  }
};

} // namespace

void autopar::attachDataMovementModels(MLIRContext &context) {
  BroadcastOp::attachInterface<BroadcastModel>(context);
  ReshapeOp::attachInterface<ReshapeModel>(context);
  TransposeOp::attachInterface<TransposeModel>(context);
  SliceOp::attachInterface<SliceModel>(context);
  PadOp::attachInterface<PadModel>(context);
  ConcatOp::attachInterface<ConcatModel>(context);
  DynamicSliceOp::attachInterface<DynamicSliceModel>(context);
}
