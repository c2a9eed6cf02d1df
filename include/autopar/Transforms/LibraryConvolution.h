// SPDX-License-Identifier: Apache-2.0
// Which convolutions a library computes on GPUs, and how a person asks for it.
#pragma once

#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::autopar {

/// What becomes of convolutions and their gradients on GPUs: `kernels` generates them, `automatic`
/// calls the library where it has them.
enum class ConvolutionMode { Automatic, Kernels };
/// auto, kernels.
std::optional<ConvolutionMode> convolutionModeFromName(llvm::StringRef name);

/// Whether `op` is a convolution, or the gradient of one, that cuDNN computes: all of f32, bf16 or
/// f16, one to three spatial dimensions, no spread input, no negative padding, nothing empty, less
/// than 2^31 elements per tensor.
bool isCudnnConvolution(Operation *op);

} // namespace mlir::autopar
