// SPDX-License-Identifier: Apache-2.0
// Parameters that a pass added: they have values before anybody gives them some.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::autopar {

/// Of an `autopar.origin` without a file, a text: how its values are drawn where nobody gives
/// others, in the words of `autopar-run --init` ("zeros").
constexpr llvm::StringLiteral kDrawnAttribute = "autopar.drawn";

} // namespace mlir::autopar
