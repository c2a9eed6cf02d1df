// SPDX-License-Identifier: Apache-2.0
// What a library applies to a product or convolution before it stores the result.
#pragma once

#include "ProgramBuilder.h"

namespace mlir::autopar {

/// c = epilogue(scale * (product + bias) + residual); values of the local function.
struct LibraryTail {
  Value bias;     ///< one element per column (matmul) or channel (convolution)
  Value residual; ///< of the result's type; where the epilogue is a derivative, at it or its mask
  Value aux;      ///< a second result that the epilogue stores
  double scale = 1.0;
  exec::Epilogue epilogue = exec::Epilogue::None;

  bool isEmpty() const {
    return !bias && !residual && scale == 1.0 && epilogue == exec::Epilogue::None;
  }
};

/// Whether an operation only rounds the right side of one product from f32 to bf16. Such a product
/// reads what is rounded, unless the operation was lowered by itself.
bool isRoundedByProduct(Operation *op);
/// Lowers a product whose result, after `tail`, is the value `output`.
LogicalResult lowerDotGeneral(ProgramBuilder &program, DotGeneralOp op, const LibraryTail &tail,
                              Value output);
/// Whether the library does this convolution as it stands, and what follows it too; that of GPUs
/// has none of it for tensors as they lie.
bool libraryTakesTail(ProgramBuilder &program, ConvolutionOp op);
/// The same as lowerDotGeneral for a convolution; a tail only where libraryTakesTail.
LogicalResult lowerConvolution(ProgramBuilder &program, ConvolutionOp op, const LibraryTail &tail,
                               Value output);

/// The gradient of a convolution's input or filter, as a call of the library.
LogicalResult lowerConvolutionGradient(ProgramBuilder &program, Operation *op);

/// Attention, and its gradient, as one call.
LogicalResult lowerAttention(ProgramBuilder &program, AttentionOp op);
LogicalResult lowerAttentionGrad(ProgramBuilder &program, AttentionGradOp op);

/// A grouped product, or its gradient by the matrices, as one call.
LogicalResult lowerGroupedProduct(ProgramBuilder &program, GroupedDotOp op);
LogicalResult lowerGroupedProductGradient(ProgramBuilder &program, GroupedDotRhsGradOp op);

/// A concatenation of more parts than one kernel takes.
LogicalResult lowerConcat(ProgramBuilder &program, ConcatOp op);

/// A convolution that the library does not take.
LogicalResult lowerConvolutionAsLoops(ProgramBuilder &program, ConvolutionOp op);

} // namespace mlir::autopar
