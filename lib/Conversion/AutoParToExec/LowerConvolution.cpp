// SPDX-License-Identifier: Apache-2.0
// convolution becomes a library call; filters are packed at load time on CPUs and read as they lie
// on GPUs. What the library does not do (spread input, negative padding, other element types) is
// rewritten to what it does, to loops, or is a generated kernel on GPUs.
#include "LibraryCall.h"

#include "autopar/Artifact/CudaScratch.h"
#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

/// Whether the library does this convolution as it stands.
static bool libraryTakes(ProgramBuilder &program, ConvolutionOp op) {
  if (program.settings().target == Target::Cuda)
    return program.settings().convolutions == ConvolutionMode::Automatic && isCudnnConvolution(op);
  auto isPositive = [](int64_t value) { return value >= 0; };
  return libraryKnows(op.getType().getElementType(), Target::Cpu) && op.getType().getRank() <= 5 &&
         op.getType().getNumElements() > 0 && op.getInput().getType().getNumElements() > 0 &&
         op.getFilter().getType().getNumElements() > 0 &&
         llvm::all_of(op.getInputDilation(), [](int64_t dilation) { return dilation == 1; }) &&
         llvm::all_of(op.getPadBegin(), isPositive) && llvm::all_of(op.getPadEnd(), isPositive);
}

bool mlir::autopar::libraryTakesTail(ProgramBuilder &program, ConvolutionOp op) {
  return program.settings().target == Target::Cpu && libraryTakes(program, op);
}

namespace {
struct ConvolutionLayouts {
  exec::Layout x = exec::Layout::Plain, y = exec::Layout::Plain;
};
} // namespace

/// Blocks of channels wherever they fit: the library is fastest on them. A few input channels (an
/// image) are read plain; groups must hold whole blocks, or one channel each.
static ConvolutionLayouts chooseLayouts(ProgramBuilder &program, ConvolutionOp op) {
  RankedTensorType x = op.getInput().getType(), y = op.getType();
  int64_t block = program.settings().channelBlock, groups = op.getGroups();
  if (!program.isBlockable(y))
    return {};
  exec::Layout blocked = program.blockedLayout();
  if (groups == 1 && x.getDimSize(1) < block)
    return {exec::Layout::Plain, blocked};
  bool isDepthwise = groups == x.getDimSize(1) && groups == y.getDimSize(1);
  bool wholeBlocks = x.getDimSize(1) / groups % block == 0 && y.getDimSize(1) / groups % block == 0;
  if (!program.isBlockable(x) || !(groups == 1 || isDepthwise || wholeBlocks))
    return {};
  return {blocked, blocked};
}

/// Whether fewer multiplications pay for the transforms around them: filters of 3x3 over enough
/// tiles of 2x2 that the transformed filter, larger than the plain one, is read often enough. One
/// sample: for more of them the library has it only where there are as many threads.
static bool favoursWinograd(ConvolutionOp op, ConvolutionLayouts layouts) {
  constexpr int64_t leastPositions = 128;
  auto isOne = [](int64_t value) { return value == 1; };
  RankedTensorType y = op.getType();
  return layouts.x == layouts.y && layouts.y != exec::Layout::Plain && y.getRank() == 4 &&
         op.getGroups() == 1 && y.getElementType().isF32() &&
         op.getFilter().getType().getShape().take_back(2) == ArrayRef<int64_t>({3, 3}) &&
         llvm::all_of(op.getStrides(), isOne) && llvm::all_of(op.getFilterDilation(), isOne) &&
         y.getDimSize(0) == 1 && y.getDimSize(2) * y.getDimSize(3) >= leastPositions;
}

/// The filter in the library's layout, made in `load`; null where it cannot be packed.
static Value packedFilter(ProgramBuilder &program, ConvolutionOp op,
                          exec::ConvolutionGeometryAttr geometry) {
  std::optional<PackSource> source = program.packSource(op.getFilter());
  if (!source || !isRowMajor(op.getFilter().getType().getShape(), source->strides))
    return {};
  ::autopar::Result<int64_t> bytes = ::autopar::cpumath::packedBytes(exec::toArtifact(geometry));
  if (!bytes.isOk())
    return {};
  auto type = RankedTensorType::get({*bytes}, IntegerType::get(op.getContext(), 8));
  Value packed = program.createBuffer(program.nameOf(source->root) + ".packed", type);
  Value plain = program.readAtLoad(source->root);
  program.describe(exec::PackOp::create(program.load(), op.getLoc(), plain, packed, geometry), op,
                   "pack", 0);
  return packed;
}

/// The same for a filter that the step computes, or that others read too: packed wherever it is
/// known. Into blocks of channels, only the library's reference code reads plain filters, a
/// thousand times slower.
static FailureOr<Value> packWhereKnown(ProgramBuilder &program, ConvolutionOp op,
                                       exec::ConvolutionGeometryAttr geometry) {
  FailureOr<Value> plain = program.rowMajorBuffer(op.getFilter());
  if (failed(plain))
    return failure();
  ::autopar::Result<int64_t> bytes = ::autopar::cpumath::packedBytes(exec::toArtifact(geometry));
  if (!bytes.isOk())
    return op.emitOpError() << "the convolution library refuses to pack the filter: "
                            << bytes.status().message();
  auto type = RankedTensorType::get({*bytes}, IntegerType::get(op.getContext(), 8));
  Value packed = program.createBuffer(getOpId(op) + ".filter", type);
  auto scope = program.placeWith(op.getFilter());
  program.describe(exec::PackOp::create(program.step(), op.getLoc(), *plain, packed, geometry), op,
                   "pack", 0);
  return packed;
}

static LogicalResult callLibrary(ProgramBuilder &program, ConvolutionOp op, const LibraryTail &tail,
                                 Value output) {
  MLIRContext *context = op.getContext();
  ConvolutionLayouts layouts = chooseLayouts(program, op);
  auto bufferIn = [&](Value value, exec::Layout layout) {
    return layout == exec::Layout::Plain ? program.rowMajorBuffer(value)
                                         : program.blockedBuffer(value);
  };
  FailureOr<Value> x = bufferIn(op.getInput(), layouts.x), bias = Value(), residual = Value();
  if (failed(x) || (tail.bias && failed(bias = program.rowMajorBuffer(tail.bias))) ||
      (tail.residual && failed(residual = bufferIn(tail.residual, layouts.y))))
    return failure();
  Type biasType = tail.bias ? cast<RankedTensorType>(tail.bias.getType()).getElementType() : Type();
  auto geometryWith = [&](exec::ConvolutionAlgorithm algorithm, bool packed) {
    return exec::ConvolutionGeometryAttr::get(
        context, op.getInput().getType(), op.getFilter().getType(), op.getType(),
        op.getStridesAttr(), op.getPadBeginAttr(), op.getPadEndAttr(), op.getFilterDilationAttr(),
        op.getGroups(), layouts.x, layouts.y, biasType, tail.residual != nullptr, tail.epilogue,
        algorithm, packed, exec::ConvolutionKind::Forward);
  };
  using Algorithm = exec::ConvolutionAlgorithm;
  exec::ConvolutionGeometryAttr geometry = geometryWith(Algorithm::Winograd, true);
  FailureOr<Value> w = Value();
  if (favoursWinograd(op, layouts))
    w = packedFilter(program, op, geometry);
  if (!*w) {
    geometry = geometryWith(Algorithm::Direct, true);
    w = packedFilter(program, op, geometry);
  }
  if (!*w) {
    bool needsPacking = layouts.y != exec::Layout::Plain;
    geometry = geometryWith(Algorithm::Direct, needsPacking);
    w = needsPacking ? packWhereKnown(program, op, geometry)
                     : program.rowMajorBuffer(op.getFilter());
    if (failed(w))
      return failure();
  }
  ::autopar::Result<int64_t> scratchBytes =
      ::autopar::cpumath::scratchBytes(exec::toArtifact(geometry), program.settings().threads);
  if (!scratchBytes.isOk())
    return op.emitOpError() << "the convolution library refuses this geometry: "
                            << scratchBytes.status().message();
  Value y = layouts.y == exec::Layout::Plain ? program.createRowMajorResult(output)
                                             : program.createBlockedResult(output);
  auto call = exec::ConvolutionOp::create(program.step(), op.getLoc(), *x, *w, y, *bias, *residual,
                                          program.createScratch(op, *scratchBytes), geometry);
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
  if (program.settings().target == Target::Cpu || !isCudnnConvolution(op))
    return op->emitOpError("has no library call: run autopar-expand-convolution-gradients first");
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
