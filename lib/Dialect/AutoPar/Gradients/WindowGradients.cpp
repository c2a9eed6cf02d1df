// SPDX-License-Identifier: Apache-2.0
// Gradients of pooling. A sum gives its cotangent to every element of the window; a maximum to the
// first largest one.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

// The windows that cover an element are a window over the spread cotangent.
Value sumGradient(FormulaBuilder &b, PoolOp pool, Value g) {
  ArrayRef<int64_t> extents = pool.getInput().getType().getShape();
  Value spread = b.spread(g, pool.getStrides());
  SmallVector<int64_t> shape(b.typeOf(spread).getShape());
  size_t rank = extents.size();
  SmallVector<int64_t> cut(rank, 0), low(rank, 0), kept, padded, zeros(rank, 0), ones(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    int64_t reach = (pool.getWindow()[i] - 1) * pool.getDilations()[i];
    // Element e lies in the windows that begin at e + padBegin - reach ... e + padBegin.
    int64_t begin = pool.getPadBegin()[i] - reach, length = extents[i] + reach;
    cut[i] = std::max<int64_t>(begin, 0);
    low[i] = std::max<int64_t>(-begin, 0);
    kept.push_back(
        std::clamp<int64_t>(length - low[i], 0, std::max<int64_t>(shape[i] - cut[i], 0)));
    padded.push_back(length);
  }
  Value around = b.pad(b.slice(spread, cut, ones, kept), low, padded);
  return PoolOp::create(b.builder, b.loc, pool.getInput().getType(), ReduceKind::Sum, around,
                        pool.getWindow(), ones, zeros, zeros, pool.getDilations());
}

Value maximumGradient(FormulaBuilder &b, PoolOp pool, Value g) {
  RankedTensorType type = pool.getInput().getType();
  Value x = pool.getKind() == ReduceKind::Max ? Value(pool.getInput())
                                              : b.unary(UnaryKind::Neg, pool.getInput());
  RankedTensorType positions = b.typeOf(g).clone(b.builder.getI64Type());
  Value where = ArgPoolOp::create(b.builder, b.loc, positions, x, pool.getWindow(),
                                  pool.getStrides(), pool.getPadBegin(), pool.getPadEnd(),
                                  pool.getDilations(), /*columnMajor=*/false);
  // A window that lies in the padding alone has no largest element.
  Value isInside = b.compare(ComparePredicate::Ge, where, b.splatLike(where, 0));
  int64_t count = b.typeOf(g).getNumElements(), total = type.getNumElements();
  RankedTensorType flat = type.clone(ArrayRef<int64_t>{total});
  Value sum = ScatterElementsOp::create(b.builder, b.loc, flat, ScatterKind::Add, b.zeros(flat),
                                        b.reshape(where, {count}),
                                        b.reshape(b.where(isInside, g), {count}), 0);
  return b.reshape(sum, type.getShape());
}

struct PoolGradient : GradientOpInterface::ExternalModel<PoolGradient, PoolOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto pool = cast<PoolOp>(op);
    FormulaBuilder b(builder, op);
    switch (pool.getKind()) {
    case ReduceKind::Sum:
      return sumGradient(b, pool, cotangents[0]);
    case ReduceKind::Max:
    case ReduceKind::Min:
      return maximumGradient(b, pool, cotangents[0]);
    default:
      return noGradient(op, "sums, maxima and minima over windows are differentiated, not " +
                                stringifyReduceKind(pool.getKind()));
    }
  }
};

} // namespace

void mlir::autopar::attachWindowGradients(MLIRContext &context) {
  PoolOp::attachInterface<PoolGradient>(context);
}
