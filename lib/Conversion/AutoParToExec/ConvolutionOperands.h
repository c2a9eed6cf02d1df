// SPDX-License-Identifier: Apache-2.0
// How the CPU's library wants the operands of a convolution, or of a gradient of one, to lie.
#pragma once

#include "LibraryCall.h"

namespace mlir::autopar {

/// Of a convolution's input and output, or of their gradients.
struct ConvolutionLayouts {
  exec::Layout input = exec::Layout::Plain, output = exec::Layout::Plain;
};

/// Blocks of channels, or channels behind all else, wherever they fit: the library is fastest on
/// them. In front of blocks, a few channels (an image) are read plain; groups must hold whole
/// blocks, or one channel each.
ConvolutionLayouts channelLayouts(ProgramBuilder &program, RankedTensorType input,
                                  RankedTensorType output, int64_t groups);

/// Whether fewer multiplications pay for the transforms around them: filters of 3x3 over enough
/// tiles of 2x2 that the transformed filter, larger than the plain one, is read often enough. One
/// sample: for more of them the library has it only where there are as many threads.
bool favoursWinograd(ConvolutionOp op, ConvolutionLayouts layouts);
/// Whether convolutions take less time with channels behind all else than on blocks, because those
/// whose channels do not fill blocks would read and write rows, which depthwise ones are a tenth as
/// fast on. Only where blocks are of 16: the library has code for it there. A program that learns
/// has to gain more, as its normalizations lose.
bool favoursChannelsLast(ProgramBuilder &program, func::FuncOp function);
/// Whether the library does more than follow the definition, a thousand times slower.
bool hasFastCode(exec::ConvolutionGeometryAttr geometry);

FailureOr<Value> bufferIn(ProgramBuilder &program, Value value, exec::Layout layout);
Value createResultIn(ProgramBuilder &program, Value result, exec::Layout layout);

/// The filter in the library's layout, made in `load`; null where it cannot be packed.
Value packedFilter(ProgramBuilder &program, Operation *op, Value filter,
                   exec::ConvolutionGeometryAttr geometry);
/// The same for a filter that the step computes, or that others read too: packed wherever it is
/// known. Into blocks of channels, only the library's reference code reads plain filters, a
/// thousand times slower.
FailureOr<Value> packWhereKnown(ProgramBuilder &program, Operation *op, Value filter,
                                exec::ConvolutionGeometryAttr geometry);
/// A buffer of what the call needs besides; null for nothing.
FailureOr<Value> scratchFor(ProgramBuilder &program, Operation *op,
                            exec::ConvolutionGeometryAttr geometry);

/// A gradient that isLibraryConvolution for CPUs.
LogicalResult lowerCpuConvolutionGradient(ProgramBuilder &program, Operation *op);

} // namespace mlir::autopar
