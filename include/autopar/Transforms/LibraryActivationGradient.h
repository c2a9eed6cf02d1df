// SPDX-License-Identifier: Apache-2.0
// Which gradients of activations a library takes while it stores a matrix product on GPUs, and how
// a person asks for it.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include <optional>

namespace mlir::autopar {

/// What becomes of gradients of activations on GPUs: `kernels` generates them, `automatic` leaves
/// them to the product that makes what they multiply, where the library can do that.
enum class ActivationGradientMode { Automatic, Kernels };
/// The first compute capability for which programs leave them to products unless told otherwise.
/// On Ampere and Ada, cuBLAS was found to be slow with a GELU in it (llm.c, llmc/matmul.cuh).
constexpr int kLeastChipForActivationGradients = 90;
/// auto, kernels.
std::optional<ActivationGradientMode> activationGradientModeFromName(llvm::StringRef name);
/// The same for an option of a pass: what is neither is an error on `op`.
FailureOr<ActivationGradientMode> activationGradientModeOf(Operation *op, llvm::StringRef name);

/// Whether the library multiplies what `product` gives by the derivative of `activation` as it
/// stores it: the gelu with tanh, of one product in bf16 or f16 whose rows and columns are
/// multiples of eight (cuBLASLt's DGELU).
bool takesActivationGradient(DotGeneralOp product, UnaryKind activation);

/// The product behind what `gradient` multiplies, through reshapes that nothing else reads, if the
/// library takes the gradient with it.
DotGeneralOp productTaking(UnaryGradOp gradient);

} // namespace mlir::autopar
