// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions and scans. Of equally large elements each gets the same part.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The product of all other elements along `dims`: what stands before, times what stands behind
/// (dividing by the element would fail where it is zero).
Value productOfOthers(FormulaBuilder &b, Value x, ArrayRef<int64_t> dims) {
  RankedTensorType type = b.typeOf(x);
  SmallVector<int64_t> order, kept;
  int64_t length = 1;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim)) {
      order.push_back(dim);
      kept.push_back(type.getDimSize(dim));
    }
  for (int64_t dim : dims) {
    order.push_back(dim);
    length *= type.getDimSize(dim);
  }
  Value moved = b.transpose(x, order);
  SmallVector<int64_t> flat = kept, shape(b.typeOf(moved).getShape());
  flat.push_back(length);
  moved = b.reshape(moved, flat);
  auto running = [&](bool reverse) -> Value {
    return CumulativeOp::create(b.builder, b.loc, moved.getType(), ReduceKind::Prod, moved,
                                kept.size(), /*exclusive=*/true, reverse);
  };
  return b.transpose(b.reshape(b.mul(running(false), running(true)), shape), inverted(order));
}

struct ReduceGradient : GradientOpInterface::ExternalModel<ReduceGradient, ReduceOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto reduce = cast<ReduceOp>(op);
    FormulaBuilder b(builder, op);
    Value x = reduce.getInput();
    RankedTensorType type = b.typeOf(x);
    Value g = b.unreduce(cotangents[0], type, reduce.getDims());
    switch (reduce.getKind()) {
    case ReduceKind::Sum:
      return g;
    case ReduceKind::Prod:
      return b.mul(g, productOfOthers(b, x, reduce.getDims()));
    case ReduceKind::Max:
    case ReduceKind::Min: {
      Value y = b.unreduce(op->getResult(0), type, reduce.getDims());
      Value wins = b.compare(ComparePredicate::Eq, x, y);
      Value share = b.where(wins, b.splatLike(x, 1));
      Value count = b.unreduce(b.sum(share, reduce.getDims()), type, reduce.getDims());
      return b.where(wins, b.div(g, count));
    }
    case ReduceKind::And:
    case ReduceKind::Or:
      return noGradient(op, "it works on bits");
    }
    llvm_unreachable("unknown reduce kind");
  }
};

struct CumulativeGradient : GradientOpInterface::ExternalModel<CumulativeGradient, CumulativeOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto cumulative = cast<CumulativeOp>(op);
    if (cumulative.getKind() != ReduceKind::Sum)
      return noGradient(op, "only running sums are differentiated, not running " +
                                stringifyReduceKind(cumulative.getKind()));
    Value g = cotangents[0];
    return Value(CumulativeOp::create(builder, op->getLoc(), g.getType(), ReduceKind::Sum, g,
                                      cumulative.getDim(), cumulative.getExclusive(),
                                      !cumulative.getReverse()));
  }
};

/// The chosen elements stand where `indices` says.
struct TopKGradient : GradientOpInterface::ExternalModel<TopKGradient, TopKOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto topK = cast<TopKOp>(op);
    FormulaBuilder b(builder, op);
    RankedTensorType type = b.typeOf(topK.getInput());
    return Value(ScatterElementsOp::create(builder, op->getLoc(), type, ScatterKind::Add,
                                           b.zeros(type), topK.getIndices(), cotangents[0],
                                           topK.getDim()));
  }
};

} // namespace

void mlir::autopar::attachReductionGradients(MLIRContext &context) {
  ReduceOp::attachInterface<ReduceGradient>(context);
  CumulativeOp::attachInterface<CumulativeGradient>(context);
  TopKOp::attachInterface<TopKGradient>(context);
}
