// SPDX-License-Identifier: Apache-2.0
// The mark of autopar-expand-integer-products.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::autopar {

/// On a convolution of whole numbers as floats whose sums are exact in any order: no algorithm that
/// makes fractions of them (Winograd) may compute it.
constexpr llvm::StringLiteral kWholeNumbers = "autopar.whole_numbers";

} // namespace mlir::autopar
