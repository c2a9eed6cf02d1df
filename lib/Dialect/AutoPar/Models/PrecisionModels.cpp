// SPDX-License-Identifier: Apache-2.0
// What each operation of the dialect does in mixed precision.
#include "Models.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/PrecisionInterface.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

template <typename Op, Precision precision>
struct PrecisionModel : PrecisionOpInterface::ExternalModel<PrecisionModel<Op, precision>, Op> {
  Precision getPrecision(Operation *) const { return precision; }
};

/// Sums and products run over many elements; an extremum is one of them.
struct ReducePrecision : PrecisionOpInterface::ExternalModel<ReducePrecision, ReduceOp> {
  Precision getPrecision(Operation *op) const {
    ReduceKind kind = cast<ReduceOp>(op).getKind();
    return kind == ReduceKind::Max || kind == ReduceKind::Min ? Precision::AsOperands
                                                              : Precision::Wide;
  }
};

/// A window is small: what it sums may be rounded.
struct PoolPrecision : PrecisionOpInterface::ExternalModel<PoolPrecision, PoolOp> {
  Precision getPrecision(Operation *op) const {
    ReduceKind kind = cast<PoolOp>(op).getKind();
    return kind == ReduceKind::Max || kind == ReduceKind::Min ? Precision::AsOperands
                                                              : Precision::Rounded;
  }
};

/// What is assigned is moved; what is added up may be many terms. Within a batch they are few: a
/// row of a sample is picked some times, that of a table by all samples.
template <typename Op>
Precision precisionOfScatter(Op op, int64_t batchDims) {
  return op.getKind() == ScatterKind::Assign || batchDims > 0 ? Precision::AsOperands
                                                              : Precision::Wide;
}
int64_t batchDimsOf(ScatterOp op) { return op.getBatchDims(); }
int64_t batchDimsOf(ScatterElementsOp) { return 0; }

template <typename Op>
struct ScatterPrecision : PrecisionOpInterface::ExternalModel<ScatterPrecision<Op>, Op> {
  Precision getPrecision(Operation *op) const {
    return precisionOfScatter(cast<Op>(op), batchDimsOf(cast<Op>(op)));
  }
};

/// Probabilities are rounded; their logarithms are on the way to a loss.
template <typename Op>
struct SoftmaxPrecision : PrecisionOpInterface::ExternalModel<SoftmaxPrecision<Op>, Op> {
  Precision getPrecision(Operation *op) const {
    return cast<Op>(op).getLog() ? Precision::Wide : Precision::Rounded;
  }
};

/// Sums of rows, sinks and what is added to scores are no narrower than the scores.
template <typename Op>
struct AttentionPrecision : PrecisionOpInterface::ExternalModel<AttentionPrecision<Op>, Op> {
  Precision getPrecision(Operation *) const { return Precision::Narrow; }
  bool staysWide(Operation *op, Value value) const {
    auto attention = cast<Op>(op);
    if constexpr (std::is_same_v<Op, AttentionOp>)
      if (value == attention.getSink())
        return true;
    return value == attention.getLogSum() || value == attention.getBias();
  }
};

template <Precision precision, typename... Ops>
void attach(MLIRContext &context) {
  (Ops::template attachInterface<PrecisionModel<Ops, precision>>(context), ...);
}

} // namespace

void mlir::autopar::registerPrecisionModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AutoParDialect *) {
    attach<Precision::Narrow, DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp,
           ConvolutionFilterGradOp, GroupedDotOp, GroupedDotRhsGradOp>(*context);
    attach<Precision::AsOperands, BroadcastOp, ReshapeOp, TransposeOp, SliceOp, PadOp, ConcatOp,
           DynamicSliceOp, GatherOp, GatherElementsOp, ConstantOp, IotaOp, RandomOp>(*context);
    attach<Precision::Rounded, UnaryOp, UnaryGradOp, BinaryOp, SelectOp, NormalizeOp,
           NormalizeAgainOp, NormalizeGradOp>(*context);
    attach<Precision::Wide, CompareOp, CastOp, BitcastOp, CumulativeOp, ArgReduceOp, ArgPoolOp,
           TopKOp>(*context);
    ScatterOp::attachInterface<ScatterPrecision<ScatterOp>>(*context);
    ScatterElementsOp::attachInterface<ScatterPrecision<ScatterElementsOp>>(*context);
    ReduceOp::attachInterface<ReducePrecision>(*context);
    SoftmaxOp::attachInterface<SoftmaxPrecision<SoftmaxOp>>(*context);
    SoftmaxGradOp::attachInterface<SoftmaxPrecision<SoftmaxGradOp>>(*context);
    AttentionOp::attachInterface<AttentionPrecision<AttentionOp>>(*context);
    AttentionGradOp::attachInterface<AttentionPrecision<AttentionGradOp>>(*context);
    PoolOp::attachInterface<PoolPrecision>(*context);
  });
}
