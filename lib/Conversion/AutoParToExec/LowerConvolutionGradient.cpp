// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions on CPUs as library calls, on blocks of channels where the library has
// fast code for them.
#include "ConvolutionOperands.h"

#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

namespace {
/// A gradient of either kind, with operands and result as its instruction has them.
template <typename Op>
struct GradientCall {
  static constexpr bool ofInput = std::is_same_v<Op, ConvolutionInputGradOp>;
  ProgramBuilder &program;
  Op op;
  Value first = op->getOperand(0), second = op->getOperand(1), result = op->getResult(0);

  exec::ConvolutionGeometryAttr geometryWith(ConvolutionLayouts layouts) {
    bool isPacked = ofInput && layouts.output != exec::Layout::Plain;
    return exec::ConvolutionGeometryAttr::get(
        op.getContext(), typeOf(first), typeOf(second), typeOf(result), op.getStridesAttr(),
        op.getPadBeginAttr(), op.getPadEndAttr(), op.getFilterDilationAttr(), op.getGroups(),
        ofInput ? layouts.output : layouts.input, ofInput ? layouts.input : layouts.output, Type(),
        /*residual=*/false, exec::Epilogue::None, exec::ConvolutionAlgorithm::Direct, isPacked,
        ofInput ? exec::ConvolutionKind::InputGradient : exec::ConvolutionKind::FilterGradient);
  }

  /// Blocks of channels, but for geometries that the library has no fast code for on them. What the
  /// library refuses altogether is refused where its scratch is asked for.
  ConvolutionLayouts chooseLayouts() {
    ConvolutionLayouts blocked =
        channelLayouts(program, ofInput ? typeOf(result) : typeOf(first),
                       ofInput ? typeOf(first) : typeOf(second), op.getGroups());
    return hasFastCode(geometryWith(blocked)) ? blocked : ConvolutionLayouts();
  }

  FailureOr<Value> filter(exec::ConvolutionGeometryAttr geometry) {
    if (!geometry.getPackedW())
      return program.rowMajorBuffer(second);
    if (Value packed = packedFilter(program, op, second, geometry))
      return packed;
    return packWhereKnown(program, op, second, geometry);
  }

  LogicalResult lower() {
    ConvolutionLayouts layouts = chooseLayouts();
    exec::ConvolutionGeometryAttr geometry = geometryWith(layouts);
    FailureOr<Value> x = bufferIn(program, first, ofInput ? layouts.output : layouts.input),
                     w = ofInput ? filter(geometry) : bufferIn(program, second, layouts.output),
                     scratch = scratchFor(program, op, geometry);
    if (failed(x) || failed(w) || failed(scratch))
      return failure();
    Value y = ofInput ? createResultIn(program, result, layouts.input)
                      : program.createRowMajorResult(result);
    auto call = exec::ConvolutionOp::create(program.step(), op.getLoc(), *x, *w, y, Value(),
                                            Value(), *scratch, geometry);
    program.describe(call, op, "convolution",
                     op.getFlops({typeOf(first), typeOf(second)}, {typeOf(result)}));
    return success();
  }
};
} // namespace

LogicalResult mlir::autopar::lowerCpuConvolutionGradient(ProgramBuilder &program, Operation *op) {
  if (auto gradient = dyn_cast<ConvolutionInputGradOp>(op))
    return GradientCall<ConvolutionInputGradOp>{program, gradient}.lower();
  return GradientCall<ConvolutionFilterGradOp>{program, cast<ConvolutionFilterGradOp>(op)}.lower();
}
