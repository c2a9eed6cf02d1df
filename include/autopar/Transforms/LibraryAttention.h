// SPDX-License-Identifier: Apache-2.0
// Which attention runs as one kernel, and how a person asks for it.
#pragma once

#include "autopar/Transforms/Target.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

#include <optional>

namespace mlir::autopar {

/// What becomes of attention: `products` writes it as products and a softmax, `fused` keeps it
/// whole wherever it is, `automatic` where there is a kernel.
enum class AttentionMode { Automatic, Fused, Products };
/// auto, fused, products.
std::optional<AttentionMode> attentionModeFromName(llvm::StringRef name);
/// The same for the option of a pass; other names are an error of `op`.
FailureOr<AttentionMode> readAttentionMode(Operation *op, llvm::StringRef name);

/// What decides whether a library has attention as one call.
struct AttentionShape {
  int64_t queries = 0, keys = 0;   ///< rows and columns of the scores
  int64_t mostHidden = 0;          ///< keys that some rank with a part of the rows does not see
  int64_t size = 0, valueSize = 0; ///< of a row of queries and keys, of values
  bool causal = false, hasWindow = false, hasBias = false, isGradient = false;
};

/// Whether attention on elements of this type, and its gradient, is one call on the target. `chip`:
/// compute capability x 10 of the oldest GPU, without meaning on CPUs.
bool isLibraryAttention(Target target, int64_t chip, Type element, const AttentionShape &shape);
/// The same for an operation; false where it is neither attention nor its gradient.
bool isLibraryAttention(Target target, int64_t chip, Operation *op);
/// Whether attention that the library has not is written as products of our own on the target,
/// where a model has its products: a triangle on GPUs, which need not read a mask.
bool expandsAttention(Target target, Type element, const AttentionShape &shape);
/// How many rows of queries products of attention, or its gradient, take at once: all, or of long
/// triangles on GPUs so many that keys which no row of them sees are left out.
int64_t attentionRowsAtOnce(Target target, Operation *op);
/// A row is hidden whole where the logarithm of its sum is below this, as far as gradients go: no
/// score is as low, and the sum could no longer tell how many elements there are.
constexpr double kHiddenRow = -0x1p17;
/// Whether a row all of whose biases are -inf is zero in that call. Elsewhere biases are bounded
/// (autopar-bound-attention-bias), and such a row is the mean of its values.
bool clearsHiddenRows(Target target);

} // namespace mlir::autopar
