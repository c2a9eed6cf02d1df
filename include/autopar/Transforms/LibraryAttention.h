// SPDX-License-Identifier: Apache-2.0
// Which attention runs as one kernel, and how a person asks for it.
#pragma once

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

/// Where a plan is going to run.
struct AttentionTarget {
  llvm::StringRef name = "cpu"; ///< cpu or cuda
  /// Nothing is going to run: a machine is planned for that has kernels which this build cannot
  /// call.
  bool planOnly = false;
};

/// Whether attention on elements of this type, of rows of these sizes, is one call on the target.
bool isLibraryAttention(const AttentionTarget &target, Type element, int64_t size,
                        int64_t valueSize);

} // namespace mlir::autopar
