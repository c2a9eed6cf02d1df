// SPDX-License-Identifier: Apache-2.0
// convolution becomes a library call; filters are packed at load time on CPUs and read as they lie
// on GPUs. What the library does not do (spread input, negative padding, other element types) is
// rewritten to what it does, to loops, or is a generated kernel on GPUs.
#include "ConvolutionOperands.h"

#include "autopar/Artifact/CudaScratch.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"
#include "autopar/Transforms/LibraryContraction.h"

using namespace mlir;
using namespace mlir::autopar;

/// Whether the library does this convolution as it stands.
static bool libraryTakes(ProgramBuilder &program, ConvolutionOp op) {
  if (program.settings().target == Target::Cuda)
    return program.settings().convolutions == ConvolutionMode::Automatic &&
           isLibraryConvolution(op, Target::Cuda);
  return (libraryKnows(op.getType().getElementType(), Target::Cpu) || isContractionOfBytes(op)) &&
         isLibraryConvolution(op, Target::Cpu);
}

bool mlir::autopar::libraryTakesTail(ProgramBuilder &program, ConvolutionOp op) {
  return program.settings().target == Target::Cpu && libraryTakes(program, op) &&
         !isContractionOfBytes(op);
}

static LogicalResult callLibrary(ProgramBuilder &program, ConvolutionOp op, const LibraryTail &tail,
                                 Value output) {
  MLIRContext *context = op.getContext();
  Type biasType = tail.bias ? cast<RankedTensorType>(tail.bias.getType()).getElementType() : Type();
  auto geometryWith = [&](ConvolutionLayouts layouts, exec::ConvolutionAlgorithm algorithm,
                          bool packed) {
    return exec::ConvolutionGeometryAttr::get(
        context, op.getInput().getType(), op.getFilter().getType(), op.getType(),
        op.getStridesAttr(), op.getPadBeginAttr(), op.getPadEndAttr(), op.getFilterDilationAttr(),
        op.getGroups(), layouts.input, layouts.output, biasType, tail.residual != nullptr,
        tail.epilogue, algorithm, packed, exec::ConvolutionKind::Forward);
  };
  using Algorithm = exec::ConvolutionAlgorithm;
  ConvolutionLayouts layouts =
      channelLayouts(program, op.getInput().getType(), op.getType(), op.getGroups());
  if (layouts.output != exec::Layout::Plain && !isContractionOfBytes(op) &&
      !hasFastCode(geometryWith(layouts, Algorithm::Direct, /*packed=*/true)))
    layouts = {};
  FailureOr<Value> x = bufferIn(program, op.getInput(), layouts.input), bias = Value(),
                   residual = Value();
  if (failed(x) || (tail.bias && failed(bias = program.rowMajorBuffer(tail.bias))) ||
      (tail.residual && failed(residual = bufferIn(program, tail.residual, layouts.output))))
    return failure();
  exec::ConvolutionGeometryAttr geometry = geometryWith(layouts, Algorithm::Winograd, true);
  FailureOr<Value> w = Value();
  if (favoursWinograd(op, layouts))
    w = packedFilter(program, op, op.getFilter(), geometry);
  if (!*w) {
    geometry = geometryWith(layouts, Algorithm::Direct, true);
    w = packedFilter(program, op, op.getFilter(), geometry);
  }
  if (!*w) {
    bool needsPacking = layouts.output != exec::Layout::Plain;
    geometry = geometryWith(layouts, Algorithm::Direct, needsPacking);
    w = needsPacking ? packWhereKnown(program, op, op.getFilter(), geometry)
                     : program.rowMajorBuffer(op.getFilter());
    if (failed(w))
      return failure();
  }
  FailureOr<Value> scratch = scratchFor(program, op, geometry);
  if (failed(scratch))
    return failure();
  Value y = createResultIn(program, output, layouts.output);
  auto call = exec::ConvolutionOp::create(program.step(), op.getLoc(), *x, *w, y, *bias, *residual,
                                          *scratch, geometry);
  program.describe(
      call, op, "convolution",
      op.getFlops({op.getInput().getType(), op.getFilter().getType()}, {op.getType()}));
  return success();
}

/// A convolution or a gradient of one on row-major operands.
template <typename Op>
static LogicalResult callCudnn(ProgramBuilder &program, Op op, exec::ConvolutionKind kind,
                               Value output) {
  Value first = op->getOperand(0), second = op->getOperand(1);
  FailureOr<Value> x = program.rowMajorBuffer(first), w = program.rowMajorBuffer(second);
  if (failed(x) || failed(w))
    return failure();
  auto typeOf = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  auto geometry = exec::ConvolutionGeometryAttr::get(
      op.getContext(), typeOf(first), typeOf(second), op.getType(), op.getStridesAttr(),
      op.getPadBeginAttr(), op.getPadEndAttr(), op.getFilterDilationAttr(), op.getGroups(),
      exec::Layout::Plain, exec::Layout::Plain, Type(), /*residual=*/false, exec::Epilogue::None,
      exec::ConvolutionAlgorithm::Direct, /*packedW=*/false, kind);
  Value scratch =
      program.createScratch(op, ::autopar::artifact::cudaScratchBytes(exec::toArtifact(geometry)));
  auto call = exec::ConvolutionOp::create(program.step(), op.getLoc(), *x, *w,
                                          program.createRowMajorResult(output), Value(), Value(),
                                          scratch, geometry);
  program.describe(call, op, "convolution",
                   op.getFlops({typeOf(first), typeOf(second)}, {op.getType()}));
  return success();
}

LogicalResult mlir::autopar::lowerConvolutionGradient(ProgramBuilder &program, Operation *op) {
  Target target = program.settings().target;
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  if (!isLibraryConvolution(op, target) || !libraryKnows(element, target))
    return op->emitOpError("has no library call: run autopar-expand-convolution-gradients first");
  if (target == Target::Cpu)
    return lowerCpuConvolutionGradient(program, op);
  if (auto gradient = dyn_cast<ConvolutionInputGradOp>(op))
    return callCudnn(program, gradient, exec::ConvolutionKind::InputGradient, gradient.getResult());
  auto gradient = cast<ConvolutionFilterGradOp>(op);
  return callCudnn(program, gradient, exec::ConvolutionKind::FilterGradient, gradient.getResult());
}

LogicalResult mlir::autopar::lowerConvolution(ProgramBuilder &program, ConvolutionOp op,
                                              const LibraryTail &tail, Value output) {
  if (libraryTakes(program, op))
    return program.settings().target == Target::Cpu
               ? callLibrary(program, op, tail, output)
               : callCudnn(program, op, exec::ConvolutionKind::Forward, output);
  if (!tail.isEmpty())
    return op.emitOpError("cannot be lowered with an epilogue for this element type");
  if (program.settings().target == Target::Cpu)
    return lowerConvolutionAsLoops(program, op);
  FailureOr<Value> input = program.rowMajorBuffer(op.getInput()),
                   filter = program.rowMajorBuffer(op.getFilter());
  if (failed(input) || failed(filter))
    return failure();
  return program.launch(op, {*input, *filter}, {program.createRowMajorResult(output)}, op);
}
