// SPDX-License-Identifier: Apache-2.0
// Scratch of library calls on GPUs: the compiler plans it, the CUDA device uses it.
#pragma once

#include "autopar/Artifact/Program.h"

#include <cstdint>

namespace autopar::artifact {

/// cuBLASLt's workspace starts at a multiple of this, as memory of cudaMalloc does; cuDNN's too.
constexpr int64_t kCudaScratchAlignment = 256;

/// What the gradient of attention sums up in f32 on a GPU, one after the other at the start of its
/// scratch. Nothing of attention itself.
struct CudaGradientSums {
  int64_t queryGradient = 0; ///< bytes of the queries' gradient
  int64_t rows = 0;          ///< bytes of a number per row

  int64_t total() const { return queryGradient + rows; }
};
CudaGradientSums cudaGradientSums(const AttentionGeometry &geometry);

/// Bytes of scratch that are planned for attention: those sums, and as much as cuDNN 9.19 asks for
/// on GPUs of any generation. Where a version asks for more, the device adds to it.
int64_t cudaScratchBytes(const AttentionGeometry &geometry);

/// The same for a convolution: room for what engines on tensor cores do first, which is to copy all
/// tensors into another order with channels in eights, and some for partial sums. The device takes
/// no engine that wants more.
int64_t cudaScratchBytes(const ConvolutionGeometry &geometry);

} // namespace autopar::artifact
