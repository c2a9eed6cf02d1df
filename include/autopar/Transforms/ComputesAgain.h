// SPDX-License-Identifier: Apache-2.0
// What a search of shardings takes for granted to be computed again in the backward pass.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir::autopar {

enum class ComputesAgain {
  Nothing,
  Cheap,  ///< what takes little longer than moving the bytes that it frees: no large products
  Layers, ///< every layer, but for what it hands to the next
};

/// Of a step: what is computed again for less time is not worth shardings that hold less.
constexpr double kDearAgain = 0.01;
/// Limits of searches for such shardings: in that of the search before, and the last in the
/// device's.
constexpr double kTighter = 0.8, kTightest = 0.1;

/// "nothing", "cheap", "layers".
std::optional<ComputesAgain> computesAgainFromName(llvm::StringRef name);
llvm::StringRef nameOf(ComputesAgain what);

} // namespace mlir::autopar
