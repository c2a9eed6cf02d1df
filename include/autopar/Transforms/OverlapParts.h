// SPDX-License-Identifier: Apache-2.0
// What autopar-overlap-parts leaves in a module.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::autopar {

/// How many operations are computed in two parts; absent where none are.
constexpr llvm::StringLiteral kInPartsAttribute = "autopar.in_parts";

} // namespace mlir::autopar
