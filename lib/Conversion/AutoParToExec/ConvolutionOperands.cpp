// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ConvolutionOperands.h"

#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/WholeNumbers.h"

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

bool mlir::autopar::favoursWinograd(ConvolutionOp op, ConvolutionLayouts layouts) {
  constexpr int64_t leastPositions = 128;
  auto isOne = [](int64_t value) { return value == 1; };
  RankedTensorType y = op.getType();
  bool isOnBlocks =
      layouts.output == exec::Layout::Blocked8 || layouts.output == exec::Layout::Blocked16;
  return layouts.input == layouts.output && isOnBlocks && !op->hasAttr(kWholeNumbers) &&
         y.getRank() == 4 && op.getGroups() == 1 && y.getElementType().isF32() &&
         op.getFilter().getType().getShape().take_back(2) == ArrayRef<int64_t>({3, 3}) &&
         llvm::all_of(op.getStrides(), isOne) && llvm::all_of(op.getFilterDilation(), isOne) &&
         y.getDimSize(0) == 1 && y.getDimSize(2) * y.getDimSize(3) >= leastPositions;
}

/// In times of what a floating-point operation takes on blocks, measured on AVX-512 (oneDNN 2.6):
/// with Winograd's algorithm, and where channels do not fill blocks and activations lie in rows; of
/// images of few channels to few, as a first convolution's, apart. With channels behind all else it
/// takes as long as on blocks, but for the gradient of a depthwise filter beyond 3x3.
static constexpr double kWinograd = 0.6, kRows = 1.4, kFewInRows = 9, kGroupsInRows = 16,
                        kWideFilterLearns = 3.5;
/// What has to be saved of all that. In training also for the normalizations between convolutions,
/// whose sums over all places of a channel stay in the cache where it has a block of its own.
static constexpr double kWorth = 0.02, kWorthInTraining = 0.2;

/// How long an operation of `convolution` takes in these layouts, its gradients counted.
static double rateOf(ConvolutionOp convolution, ConvolutionLayouts layouts, int64_t block,
                     bool learns) {
  int64_t channels = convolution.getInput().getType().getDimSize(1),
          groups = static_cast<int64_t>(convolution.getGroups());
  if (favoursWinograd(convolution, layouts))
    return kWinograd;
  if (layouts.output == exec::Layout::Plain)
    return groups > 1 ? kGroupsInRows : channels < block ? kFewInRows : kRows;
  bool isWide = llvm::any_of(convolution.getFilter().getType().getShape().drop_front(2),
                             [](int64_t side) { return side > 3; });
  bool isDepthwise = groups > 1 && groups == channels; // an image of one channel is not
  return learns && isWide && isDepthwise ? kWideFilterLearns : 1;
}

bool mlir::autopar::favoursChannelsLast(ProgramBuilder &program, func::FuncOp function) {
  if (program.settings().channelBlock != 16)
    return false;
  double saved = 0, all = 0;
  bool learns = function->walk([](ConvolutionFilterGradOp) { return WalkResult::interrupt(); })
                    .wasInterrupted();
  function->walk([&](ConvolutionOp convolution) {
    if (!libraryKnows(convolution.getType().getElementType(), Target::Cpu))
      return;
    RankedTensorType input = convolution.getInput().getType(), output = convolution.getType();
    ConvolutionLayouts layouts =
        channelLayouts(program, input, output, static_cast<int64_t>(convolution.getGroups()));
    double rate = rateOf(convolution, layouts, program.settings().channelBlock, learns);
    double time = rate * static_cast<double>(convolution.getFlops(
                             {input, convolution.getFilter().getType()}, {output}));
    all += time;
    saved += time - time / rate;
  });
  return saved > (learns ? kWorthInTraining : kWorth) * all;
}

bool mlir::autopar::hasFastCode(exec::ConvolutionGeometryAttr geometry) {
  ::autopar::Result<bool> isFast = ::autopar::cpumath::isFast(exec::toArtifact(geometry));
  return isFast.isOk() && *isFast;
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
  if (!source || source->offset != 0 || !isRowMajor(shape, source->strides))
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
