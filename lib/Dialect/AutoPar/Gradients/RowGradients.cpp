// SPDX-License-Identifier: Apache-2.0
// Gradients of softmax and normalization: row operations again.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// y (g - sum of g y); of the logarithm: g - exp(y) sum of g.
struct SoftmaxGradient : GradientOpInterface::ExternalModel<SoftmaxGradient, SoftmaxOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto softmax = cast<SoftmaxOp>(op);
    FormulaBuilder b(builder, op);
    Value y = op->getResult(0), g = cotangents[0];
    SmallVector<int64_t> dims{static_cast<int64_t>(softmax.getDim())};
    RankedTensorType type = softmax.getType();
    if (softmax.getLog())
      return b.sub(g, b.mul(b.unary(UnaryKind::Exp, y), b.unreduce(b.sum(g, dims), type, dims)));
    return b.mul(y, b.sub(g, b.unreduce(b.sum(b.mul(g, y), dims), type, dims)));
  }
};

/// With r = 1 / sqrt(variance + epsilon): r (g - mean of g - y mean of g y); with `rms` the mean of
/// g is not taken off. As in the operation, statistics of narrow floats are computed in f32.
struct NormalizeGradient : GradientOpInterface::ExternalModel<NormalizeGradient, NormalizeOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto normalize = cast<NormalizeOp>(op);
    FormulaBuilder b(builder, op);
    ArrayRef<int64_t> dims = normalize.getDims();
    Type stored = normalize.getType().getElementType();
    Type wide = stored.isF64() ? stored : builder.getF32Type();
    Value x = b.cast(normalize.getInput(), wide), y = b.cast(normalize.getResult(), wide),
          g = b.cast(cotangents[0], wide);
    RankedTensorType type = b.typeOf(x);
    auto meanOf = [&](Value value) { return b.unreduce(b.mean(value, dims), type, dims); };
    Value centered = normalize.getRms() ? x : b.sub(x, meanOf(x));
    Value variance = b.mean(b.square(centered), dims);
    Value r =
        b.unary(UnaryKind::Rsqrt, b.shift(variance, normalize.getEpsilon().convertToDouble()));
    Value inner = b.sub(g, b.mul(y, meanOf(b.mul(g, y))));
    if (!normalize.getRms())
      inner = b.sub(inner, meanOf(g));
    return b.cast(b.mul(b.unreduce(r, type, dims), inner), stored);
  }
};

} // namespace

void mlir::autopar::attachRowGradients(MLIRContext &context) {
  SoftmaxOp::attachInterface<SoftmaxGradient>(context);
  NormalizeOp::attachInterface<NormalizeGradient>(context);
}
