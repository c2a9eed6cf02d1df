// SPDX-License-Identifier: Apache-2.0
// Which products of a model are inner ones: neither the last on the way to a result nor of those
// that only lead to a choice, as the routers of experts do.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::autopar {

/// The operations of a block whose results another product is made of; `isProduct` says which
/// operations are products that count.
inline DenseSet<Operation *> leadingOn(Block &block, function_ref<bool(Operation *)> isProduct) {
  DenseSet<Operation *> leading, before; // `before`: a product, or what leads to one
  for (Operation &op : llvm::reverse(block)) {
    bool leadsOn =
        !isa<TopKOp, ArgReduceOp>(op) &&
        llvm::any_of(op.getUsers(), [&](Operation *user) { return before.contains(user); });
    if (leadsOn)
      leading.insert(&op);
    if (leadsOn || isProduct(&op))
      before.insert(&op);
  }
  return leading;
}

} // namespace mlir::autopar
