// SPDX-License-Identifier: Apache-2.0
// Names of dimensions that are sums and products of others, as exporters write them:
// "past_sequence_length + sequence_length", "2*s0".
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <optional>
#include <string>

namespace mlir::autopar {

/// A dimension by the names of others.
struct DimExpression {
  SmallVector<std::string> names; ///< of those, each once
  /// The extent, where all names are bound and it is one that a dimension may have.
  std::optional<int64_t> extent;
};

/// Reads names, whole numbers, `+`, `-` between spaces, `*` and parentheses. Nothing if the text is
/// something else, or one name alone.
std::optional<DimExpression> readDimExpression(StringRef text,
                                               const std::map<std::string, int64_t> &bindings);

} // namespace mlir::autopar
