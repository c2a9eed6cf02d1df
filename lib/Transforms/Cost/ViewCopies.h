// SPDX-License-Identifier: Apache-2.0
// Which views lowering makes a copy for: those whose elements are where no strides can say.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Follows the views of a function; asked of each once, in the order of the block.
class ViewCopies {
public:
  /// Whether a view, or a group of views, costs a copy.
  bool isCopied(Operation *view);

private:
  bool isCopiedHere(Operation *op);
  SmallVector<int64_t> stridesOf(Value value) const;

  DenseMap<Value, SmallVector<int64_t>> strides; ///< of those that do not lie row-major
};

} // namespace mlir::autopar
