// SPDX-License-Identifier: Apache-2.0
// A row of an embedding that is not trained.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::autopar {

/// Of a gather in one dimension: the position whose elements have no gradient by it (padding_idx of
/// torch.nn.Embedding).
constexpr llvm::StringLiteral kPaddingIndexAttribute = "autopar.padding_index";

} // namespace mlir::autopar
