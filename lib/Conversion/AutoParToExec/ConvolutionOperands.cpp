// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ConvolutionOperands.h"

#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

ConvolutionLayouts mlir::autopar::channelLayouts(ProgramBuilder &program, RankedTensorType input,
                                                 RankedTensorType output, int64_t groups) {
  int64_t block = program.settings().channelBlock, channels = input.getDimSize(1);
  if (!program.isBlockable(output))
    return {};
  exec::Layout blocked = program.blockedLayout();
  if (blocked == exec::Layout::ChannelsLast)
    return {blocked, blocked};
  if (groups == 1 && channels < block)
    return {exec::Layout::Plain, blocked};
  bool isDepthwise = groups == channels && groups == output.getDimSize(1);
  bool wholeBlocks = channels / groups % block == 0 && output.getDimSize(1) / groups % block == 0;
  if (!program.isBlockable(input) || !(groups == 1 || isDepthwise || wholeBlocks))
    return {};
  return {blocked, blocked};
}

FailureOr<Value> mlir::autopar::bufferIn(ProgramBuilder &program, Value value,
                                         exec::Layout layout) {
  return layout == exec::Layout::Plain ? program.rowMajorBuffer(value)
                                       : program.blockedBuffer(value);
}

Value mlir::autopar::createResultIn(ProgramBuilder &program, Value result, exec::Layout layout) {
  return layout == exec::Layout::Plain ? program.createRowMajorResult(result)
                                       : program.createBlockedResult(result);
}

Value mlir::autopar::packedFilter(ProgramBuilder &program, Operation *op, Value filter,
                                  exec::ConvolutionGeometryAttr geometry) {
  std::optional<PackSource> source = program.packSource(filter);
  auto shape = cast<RankedTensorType>(filter.getType()).getShape();
  if (!source || !isRowMajor(shape, source->strides))
    return {};
  ::autopar::Result<int64_t> bytes = ::autopar::cpumath::packedBytes(exec::toArtifact(geometry));
  if (!bytes.isOk())
    return {};
  auto type = RankedTensorType::get({*bytes}, IntegerType::get(op->getContext(), 8));
  Value packed = program.createBuffer(program.nameOf(source->root) + ".packed", type);
  Value plain = program.readAtLoad(source->root);
  program.describe(exec::PackOp::create(program.load(), op->getLoc(), plain, packed, geometry), op,
                   "pack", 0);
  return packed;
}

FailureOr<Value> mlir::autopar::packWhereKnown(ProgramBuilder &program, Operation *op, Value filter,
                                               exec::ConvolutionGeometryAttr geometry) {
  FailureOr<Value> plain = program.rowMajorBuffer(filter);
  if (failed(plain))
    return failure();
  ::autopar::Result<int64_t> bytes = ::autopar::cpumath::packedBytes(exec::toArtifact(geometry));
  if (!bytes.isOk())
    return op->emitOpError() << "the convolution library refuses to pack the filter: "
                             << bytes.status().message();
  auto type = RankedTensorType::get({*bytes}, IntegerType::get(op->getContext(), 8));
  Value packed = program.createBuffer(getOpId(op) + ".filter", type);
  auto scope = program.placeWith(filter);
  program.describe(exec::PackOp::create(program.step(), op->getLoc(), *plain, packed, geometry), op,
                   "pack", 0);
  return packed;
}

FailureOr<Value> mlir::autopar::scratchFor(ProgramBuilder &program, Operation *op,
                                           exec::ConvolutionGeometryAttr geometry) {
  ::autopar::Result<int64_t> bytes =
      ::autopar::cpumath::scratchBytes(exec::toArtifact(geometry), program.settings().threads);
  if (!bytes.isOk())
    return op->emitOpError() << "the convolution library refuses this geometry: "
                             << bytes.status().message();
  return program.createScratch(op, *bytes);
}
