// SPDX-License-Identifier: Apache-2.0
// Gradients of softmax and normalization, as one operation each, and what these stand for.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct SoftmaxGradient : GradientOpInterface::ExternalModel<SoftmaxGradient, SoftmaxOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto softmax = cast<SoftmaxOp>(op);
    return Value(SoftmaxGradOp::create(builder, op->getLoc(), softmax.getType(),
                                       softmax.getResult(), cotangents[0], softmax.getDimAttr(),
                                       softmax.getLogAttr()));
  }
};

/// y (g - sum of g y); of the logarithm: g - exp(y) sum of g.
struct SoftmaxGradExpansion
    : ExpansionOpInterface::ExternalModel<SoftmaxGradExpansion, SoftmaxGradOp> {
  Value expand(Operation *op, OpBuilder &builder) const {
    auto gradient = cast<SoftmaxGradOp>(op);
    FormulaBuilder b(builder, op);
    Value y = gradient.getOutput(), g = gradient.getGradient();
    SmallVector<int64_t> dims{static_cast<int64_t>(gradient.getDim())};
    RankedTensorType type = gradient.getType();
    if (gradient.getLog())
      return b.sub(g, b.mul(b.unary(UnaryKind::Exp, y), b.unreduce(b.sum(g, dims), type, dims)));
    return b.mul(y, b.sub(g, b.unreduce(b.sum(b.mul(g, y), dims), type, dims)));
  }
};

struct NormalizeGradient : GradientOpInterface::ExternalModel<NormalizeGradient, NormalizeOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned,
                                 ValueRange cotangents) const {
    auto normalize = cast<NormalizeOp>(op);
    return Value(NormalizeGradOp::create(builder, op->getLoc(), normalize.getType(),
                                         normalize.getInput(), normalize.getResult(), cotangents[0],
                                         normalize.getDimsAttr(), normalize.getEpsilonAttr(),
                                         normalize.getRmsAttr()));
  }
};

/// With r = 1 / sqrt(variance + epsilon): r (g - mean of g - y mean of g y); with `rms` the mean of
/// g is not taken off. As in the operation, statistics of narrow floats are computed in f32.
struct NormalizeGradExpansion
    : ExpansionOpInterface::ExternalModel<NormalizeGradExpansion, NormalizeGradOp> {
  Value expand(Operation *op, OpBuilder &builder) const {
    auto gradient = cast<NormalizeGradOp>(op);
    FormulaBuilder b(builder, op);
    ArrayRef<int64_t> dims = gradient.getDims();
    Type stored = gradient.getType().getElementType();
    Type wide = stored.isF64() ? stored : builder.getF32Type();
    Value x = b.cast(gradient.getInput(), wide), y = b.cast(gradient.getOutput(), wide),
          g = b.cast(gradient.getGradient(), wide);
    RankedTensorType type = b.typeOf(x);
    auto meanOf = [&](Value value) { return b.unreduce(b.mean(value, dims), type, dims); };
    Value centered = gradient.getRms() ? x : b.sub(x, meanOf(x));
    Value variance = b.mean(b.square(centered), dims);
    Value r = b.unary(UnaryKind::Rsqrt, b.shift(variance, gradient.getEpsilon().convertToDouble()));
    Value inner = b.sub(g, b.mul(y, meanOf(b.mul(g, y))));
    if (!gradient.getRms())
      inner = b.sub(inner, meanOf(g));
    return b.cast(b.mul(b.unreduce(r, type, dims), inner), stored);
  }
};

} // namespace

void mlir::autopar::attachRowGradients(MLIRContext &context) {
  SoftmaxOp::attachInterface<SoftmaxGradient>(context);
  SoftmaxGradOp::attachInterface<SoftmaxGradExpansion>(context);
  NormalizeOp::attachInterface<NormalizeGradient>(context);
  NormalizeGradOp::attachInterface<NormalizeGradExpansion>(context);
}
