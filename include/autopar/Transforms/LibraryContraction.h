// SPDX-License-Identifier: Apache-2.0
// Which matrix products and convolutions are left to a library.
#pragma once

namespace mlir {
class Operation;
}

namespace mlir::autopar {

/// Whether `op` is a dot_general or convolution that the runtime's library computes: operands and
/// result all f32, bf16 or f16 (of which products may have an f32 result), or bytes as below, no
/// empty tensors; convolutions of one to three spatial dimensions, without input dilation or
/// negative padding.
bool isLibraryContraction(Operation *op);
/// Whether `op` multiplies bytes, those on the right with a sign, and sums them in i32.
bool isContractionOfBytes(Operation *op);
/// Whether `groupOrOp` is one, or has one in it.
bool hasLibraryContraction(Operation *groupOrOp);

} // namespace mlir::autopar
