// SPDX-License-Identifier: Apache-2.0
// Which convolutions a target's library computes, and how a person asks for it.
#pragma once

#include "autopar/Transforms/Target.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::autopar {

/// What becomes of convolutions on GPUs and of their gradients anywhere: `kernels` generates them,
/// `automatic` calls the library where it has them.
enum class ConvolutionMode { Automatic, Kernels };
/// auto, kernels.
std::optional<ConvolutionMode> convolutionModeFromName(llvm::StringRef name);

/// Channels that lie together in activations of the CPU's library on this machine: 16 with AVX-512,
/// else 8.
int64_t channelBlock();

/// Whether `op` is a convolution, or the gradient of one, that the library of `target` computes: of
/// f32, bf16 or f16 (on CPUs once products of f16 are widened), one to three spatial dimensions, no
/// spread input, no negative padding, nothing empty, less than 2^31 elements per tensor. On CPUs
/// the result may be of another of these types than the operands.
bool isLibraryConvolution(Operation *op, Target target);

} // namespace mlir::autopar
