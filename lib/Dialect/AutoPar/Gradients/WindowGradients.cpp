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
  Value zero = b.splatLike(where, 0);
  Value isInside = b.compare(ComparePredicate::Ge, where, zero);
  // Dimensions that the window leaves alone stay apart, so that they may be split.
  SmallVector<int64_t> planes, given;
  int64_t size = 1, count = 1;
  for (auto [dim, extent] : llvm::enumerate(type.getShape())) {
    bool isOuter = planes.size() == dim && pool.getWindow()[dim] == 1 &&
                   pool.getStrides()[dim] == 1 && pool.getPadBegin()[dim] == 0 &&
                   pool.getPadEnd()[dim] == 0;
    if (isOuter)
      planes.push_back(extent);
    else {
      size *= extent;
      count *= positions.getDimSize(dim);
    }
  }
  int64_t along = planes.size();
  given = planes;
  planes.push_back(size);
  given.push_back(count);
  Value inPlane = b.binary(BinaryKind::Modulo, b.binary(BinaryKind::Max, where, zero),
                           b.splatLike(where, size));
  RankedTensorType spread = type.clone(planes);
  Value sum = ScatterElementsOp::create(b.builder, b.loc, spread, ScatterKind::Add, b.zeros(spread),
                                        b.reshape(inPlane, given),
                                        b.reshape(b.where(isInside, g), given), along);
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
