// SPDX-License-Identifier: Apache-2.0
// What a library does for training while it computes a matrix product on GPUs, beside what it does
// in inference: activations with what their gradients read, these gradients, and the gradients of
// biases. And how a person asks for kernels instead.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "llvm/ADT/MapVector.h"

#include <optional>

namespace mlir::autopar {

/// Who computes them on GPUs: `kernels` generates them, `automatic` leaves them to products, where
/// the library can do that.
enum class EpilogueMode { Automatic, Kernels };
/// The first compute capability for which activations and their gradients are left to products
/// unless told otherwise. On Ampere and Ada, cuBLAS was found to be slow with a GELU in it (llm.c,
/// llmc/matmul.cuh, which takes it from Hopper on).
constexpr int kLeastChipForActivationGradients = 90;
/// auto, kernels.
std::optional<EpilogueMode> epilogueModeFromName(llvm::StringRef name);
/// The same for an option of a pass: what is neither is an error on `op`.
FailureOr<EpilogueMode> epilogueModeOf(Operation *op, llvm::StringRef name);

/// Whether the library multiplies what `product` gives by the derivative of `activation` as it
/// stores it, or applies the activation and stores what that derivative is taken at: a relu or the
/// gelu with tanh, of one product in bf16 or f16 whose rows and columns are multiples of eight.
bool takesActivationInTraining(DotGeneralOp product, UnaryKind activation);

/// The gelu that reads `given`, of which others may read what it was given, if `product`, which
/// makes that, should apply it: not where the plan computes the gelu again without the product.
UnaryOp activationInTraining(DotGeneralOp product, Value given);

/// The product behind what `gradient` multiplies, through reshapes that nothing else reads, if the
/// library takes the gradient with it. Before epilogues are narrowed casts stand between the two.
DotGeneralOp productTaking(UnaryGradOp gradient, bool throughCasts = false);

/// On a sum: the product that multiplies what is summed up makes it too, in one call.
constexpr llvm::StringLiteral kSummedByProduct = "autopar.summed_by_product";
/// The sums of a block that products of bf16 or f16 can make of one of their operands, over their
/// contracted dimensions: gradients of biases, by the products that make the weights'. Each product
/// makes at most one, of its result's type. `isWanted` may refuse. cuBLASLt calls them BGRADA and
/// BGRADB.
llvm::MapVector<DotGeneralOp, ReduceOp>
sumsOfProducts(Block &block, llvm::function_ref<bool(DotGeneralOp, ReduceOp)> isWanted);
/// Before form-fusion-groups, on what a product will take: the bytes per element of the result that
/// it moves for that.
constexpr llvm::StringLiteral kInProduct = "autopar.in_product";

/// Whether something behind the product would rather be its epilogue: beside a sum the library has
/// none but what is added.
bool hasOtherEpilogue(DotGeneralOp product);

} // namespace mlir::autopar
