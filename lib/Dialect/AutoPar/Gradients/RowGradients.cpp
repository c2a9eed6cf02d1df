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

/// Statistics of rows, in f32 (f64 for f64). Formulas that are made of them for one input share
/// them.
class RowStatistics {
public:
  template <typename OpTy>
  RowStatistics(FormulaBuilder &b, OpTy op)
      : b(b), dims(op.getDims()), stored(op.getType().getElementType()),
        wide(stored.isF64() ? stored : b.builder.getF32Type()) {
    Value x = b.cast(op.getInput(), wide);
    type = b.typeOf(x);
    centered = op.getRms() ? x : b.sub(x, meanOf(x));
    Value variance = b.mean(b.square(centered), dims);
    r = b.unreduce(b.unary(UnaryKind::Rsqrt, b.shift(variance, op.getEpsilon().convertToDouble())),
                   type, dims);
  }

  /// The mean of its row for each element.
  Value meanOf(Value value) { return b.unreduce(b.mean(value, dims), type, dims); }

  FormulaBuilder &b;
  ArrayRef<int64_t> dims;
  Type stored, wide;
  RankedTensorType type;
  Value centered; ///< the input, without its mean unless it is kept
  Value r;        ///< 1 / sqrt(variance + epsilon), for each element
};

struct NormalizeAgainExpansion
    : ExpansionOpInterface::ExternalModel<NormalizeAgainExpansion, NormalizeAgainOp> {
  Value expand(Operation *op, OpBuilder &builder) const {
    FormulaBuilder b(builder, op);
    RowStatistics row(b, cast<NormalizeAgainOp>(op));
    return b.cast(b.mul(row.centered, row.r), row.stored);
  }
};

/// With r = 1 / sqrt(variance + epsilon): r (g - mean of g - y mean of g y); with `rms` the mean of
/// g is not taken off.
struct NormalizeGradExpansion
    : ExpansionOpInterface::ExternalModel<NormalizeGradExpansion, NormalizeGradOp> {
  Value expand(Operation *op, OpBuilder &builder) const {
    auto gradient = cast<NormalizeGradOp>(op);
    FormulaBuilder b(builder, op);
    RowStatistics row(b, gradient);
    Value y = b.cast(gradient.getOutput(), row.wide), g = b.cast(gradient.getGradient(), row.wide);
    Value inner = b.sub(g, b.mul(y, row.meanOf(b.mul(g, y))));
    if (!gradient.getRms())
      inner = b.sub(inner, row.meanOf(g));
    return b.cast(b.mul(row.r, inner), row.stored);
  }
};

} // namespace

void mlir::autopar::attachRowGradients(MLIRContext &context) {
  SoftmaxOp::attachInterface<SoftmaxGradient>(context);
  SoftmaxGradOp::attachInterface<SoftmaxGradExpansion>(context);
  NormalizeOp::attachInterface<NormalizeGradient>(context);
  NormalizeAgainOp::attachInterface<NormalizeAgainExpansion>(context);
  NormalizeGradOp::attachInterface<NormalizeGradExpansion>(context);
}
