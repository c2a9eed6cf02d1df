// SPDX-License-Identifier: Apache-2.0
// convolution becomes a library call; filters are packed at load time. What the library does not do
// (spread input, negative padding, other element types) is rewritten to what it does, or to loops.
#include "LibraryCall.h"

#include "autopar/Artifact/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::libraryTakes(ConvolutionOp op) {
  auto isPositive = [](int64_t value) { return value >= 0; };
  return libraryKnows(op.getType().getElementType()) && op.getType().getRank() <= 5 &&
         op.getType().getNumElements() > 0 && op.getInput().getType().getNumElements() > 0 &&
         op.getFilter().getType().getNumElements() > 0 &&
         llvm::all_of(op.getInputDilation(), [](int64_t dilation) { return dilation == 1; }) &&
         llvm::all_of(op.getPadBegin(), isPositive) && llvm::all_of(op.getPadEnd(), isPositive);
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

/// The filter in the library's layout, made in `load`; null where it cannot be packed.
static Value packedFilter(ProgramBuilder &program, ConvolutionOp op,
                          exec::ConvolutionGeometryAttr geometry) {
  std::optional<PackSource> source = program.packSource(op.getFilter());
  if (!source || !isRowMajor(op.getFilter().getType().getShape(), source->strides))
    return {};
  ::autopar::Result<int64_t> bytes = ::autopar::artifact::packedBytes(exec::toArtifact(geometry));
  if (!bytes.isOk())
    return {};
  auto type = RankedTensorType::get({*bytes}, IntegerType::get(op.getContext(), 8));
  Value packed = program.createBuffer(program.nameOf(source->root) + ".packed", type);
  Value plain = program.readAtLoad(source->root);
  program.describe(exec::PackOp::create(program.load(), op.getLoc(), plain, packed, geometry), op,
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
  auto geometryWith = [&](bool packed) {
    return exec::ConvolutionGeometryAttr::get(
        context, op.getInput().getType(), op.getFilter().getType(), op.getType(),
        op.getStridesAttr(), op.getPadBeginAttr(), op.getPadEndAttr(), op.getFilterDilationAttr(),
        op.getGroups(), layouts.x, layouts.y, biasType, tail.residual != nullptr, tail.epilogue,
        packed);
  };
  exec::ConvolutionGeometryAttr geometry = geometryWith(true);
  FailureOr<Value> w = packedFilter(program, op, geometry);
  if (!*w) {
    geometry = geometryWith(false);
    if (failed(w = program.rowMajorBuffer(op.getFilter())))
      return failure();
  }
  ::autopar::Result<int64_t> scratchBytes =
      ::autopar::artifact::scratchBytes(exec::toArtifact(geometry), program.settings().threads);
  if (!scratchBytes.isOk())
    return op.emitOpError() << "the convolution library refuses this geometry: "
                            << scratchBytes.status().message();
  Value y = layouts.y == exec::Layout::Plain ? program.createRowMajorResult(output)
                                             : program.createBlockedResult(output);
  auto call = exec::ConvolutionOp::create(program.step(), op.getLoc(), *x, *w, y, *bias, *residual,
                                          program.createScratch(op, *scratchBytes), geometry);
  std::string key;
  llvm::raw_string_ostream(key) << "conv/" << op.getInput().getType() << "/"
                                << op.getFilter().getType() << "/" << op.getType();
  program.describe(
      call, op, key,
      op.getFlops({op.getInput().getType(), op.getFilter().getType()}, {op.getType()}));
  return success();
}

LogicalResult mlir::autopar::lowerConvolution(ProgramBuilder &program, ConvolutionOp op,
                                              const LibraryTail &tail, Value output) {
  if (libraryTakes(op))
    return callLibrary(program, op, tail, output);
  if (!tail.isEmpty())
    return op.emitOpError("cannot be lowered with an epilogue for this element type");
  return lowerConvolutionAsLoops(program, op);
}
