// SPDX-License-Identifier: Apache-2.0
// Rows of attention that a bias hides whole, where a model wants zeros in them and the call for
// attention would give something else.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "llvm/ADT/DenseMap.h"

namespace mlir::autopar {

/// Clears such rows of several operations; what tells them is computed once per bias.
class HiddenRows {
public:
  /// `attention` [batch, heads, rows, size] with zeros in the rows for which the largest element of
  /// `bias` [batch or 1, heads or 1, rows or 1, keys] is -inf. What it makes, before `root`, is
  /// named after that. A model swaps heads and rows of what it gets: that is done before rows are
  /// cleared, so that attention stores them so.
  Value clear(Operation *root, Value attention, Value bias);

private:
  Value hiddenBy(Value bias, Operation *root);

  DenseMap<Value, Value> known; ///< by bias
};

} // namespace mlir::autopar
