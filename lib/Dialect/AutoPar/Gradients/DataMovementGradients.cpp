// SPDX-License-Identifier: Apache-2.0
// Gradients of operations that move elements: every cotangent goes back to where its element came
// from.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

template <typename Model, typename Op>
using Gradient = GradientOpInterface::ExternalModel<Model, Op>;

/// Sum over the repetitions.
struct BroadcastGradient : Gradient<BroadcastGradient, BroadcastOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto broadcast = cast<BroadcastOp>(op);
    FormulaBuilder b(builder, op);
    RankedTensorType input = broadcast.getInput().getType(), result = broadcast.getType();
    SmallVector<int64_t> repeated;
    for (int64_t dim = 0; dim < result.getRank(); ++dim) {
      auto *at = llvm::find(broadcast.getDims(), dim);
      if (at == broadcast.getDims().end() ||
          input.getDimSize(at - broadcast.getDims().begin()) != result.getDimSize(dim))
        repeated.push_back(dim);
    }
    Value addends = withoutVanishing(cotangents[0], repeated, b);
    return addends ? b.reshape(b.sum(addends, repeated), input.getShape()) : Value();
  }
};

struct ReshapeGradient : Gradient<ReshapeGradient, ReshapeOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    FormulaBuilder b(builder, op);
    return b.reshape(cotangents[0], b.typeOf(op->getOperand(0)).getShape());
  }
};

struct TransposeGradient : Gradient<TransposeGradient, TransposeOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    return FormulaBuilder(builder, op)
        .transpose(cotangents[0], inverted(cast<TransposeOp>(op).getPermutation()));
  }
};

/// Spread by the step, with zeros around; reversed where the step is negative.
struct SliceGradient : Gradient<SliceGradient, SliceOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto slice = cast<SliceOp>(op);
    FormulaBuilder b(builder, op);
    SmallVector<int64_t> low(slice.getStarts()), steps, reversed;
    for (auto [dim, step] : llvm::enumerate(slice.getSteps())) {
      steps.push_back(std::abs(step));
      if (step > 0)
        continue;
      reversed.push_back(dim);
      low[dim] += step * (std::max<int64_t>(slice.getType().getDimSize(dim), 1) - 1);
    }
    Value g = b.spread(b.reverse(cotangents[0], reversed), steps);
    return b.pad(g, low, slice.getInput().getType().getShape());
  }
};

struct PadGradient : Gradient<PadGradient, PadOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto pad = cast<PadOp>(op);
    FormulaBuilder b(builder, op);
    RankedTensorType inner = pad.getInput().getType(), type = pad.getType();
    SmallVector<int64_t> ones(type.getRank(), 1);
    Value inside = b.slice(cotangents[0], pad.getLow(), ones, inner.getShape());
    if (operand == 0)
      return inside;
    SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    Value border = b.sub(b.sum(cotangents[0], all), b.sum(inside, all));
    return b.reshape(border, b.typeOf(pad.getValue()).getShape());
  }
};

struct ConcatGradient : Gradient<ConcatGradient, ConcatOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    int64_t dim = cast<ConcatOp>(op).getDim();
    FormulaBuilder b(builder, op);
    ArrayRef<int64_t> shape = b.typeOf(op->getOperand(operand)).getShape();
    SmallVector<int64_t> starts(shape.size(), 0), ones(shape.size(), 1);
    for (unsigned before = 0; before < operand; ++before)
      starts[dim] += b.typeOf(op->getOperand(before)).getDimSize(dim);
    return b.slice(cotangents[0], starts, ones, shape);
  }
};

// The cotangent behind as many zeros as the input has elements, and the slice that puts its
// beginning at `start`; what would lie past the end of the input is left out.
struct DynamicSliceGradient : Gradient<DynamicSliceGradient, DynamicSliceOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto slice = cast<DynamicSliceOp>(op);
    FormulaBuilder b(builder, op);
    ArrayRef<int64_t> shape = slice.getInput().getType().getShape();
    SmallVector<int64_t> padded;
    SmallVector<Value> starts;
    for (auto [extent, own, start] :
         llvm::zip_equal(shape, b.typeOf(cotangents[0]).getShape(), slice.getStarts())) {
      padded.push_back(extent + own);
      Value last = b.splatLike(start, extent);
      starts.push_back(b.sub(last, b.binary(BinaryKind::Min, start, last)));
    }
    Value behind = b.pad(cotangents[0], shape, padded);
    return Value(
        DynamicSliceOp::create(builder, op->getLoc(), slice.getInput().getType(), behind, starts));
  }
};

} // namespace

void mlir::autopar::attachDataMovementGradients(MLIRContext &context) {
  BroadcastOp::attachInterface<BroadcastGradient>(context);
  ReshapeOp::attachInterface<ReshapeGradient>(context);
  TransposeOp::attachInterface<TransposeGradient>(context);
  SliceOp::attachInterface<SliceGradient>(context);
  PadOp::attachInterface<PadGradient>(context);
  ConcatOp::attachInterface<ConcatGradient>(context);
  DynamicSliceOp::attachInterface<DynamicSliceGradient>(context);
}
