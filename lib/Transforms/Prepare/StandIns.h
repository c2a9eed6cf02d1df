// SPDX-License-Identifier: Apache-2.0
// Operations that are written in another one's place: they have its name and are in its phase.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "mlir/IR/PatternMatch.h"

namespace mlir::autopar {

/// Names `op` as `id`, in the phase of the step that `root` belongs to.
inline void standFor(Operation *op, Operation *root, const Twine &id) {
  if (!getOpId(root).empty())
    setOpId(op, id.str());
  if (Attribute phase = root->getAttr("autopar.phase"))
    op->setAttr("autopar.phase", phase);
}

/// Replaces `root` by a new operation that takes over its id and phase.
template <typename OpTy, typename... Args>
OpTy replaceKeepingId(PatternRewriter &rewriter, Operation *root, Args &&...args) {
  auto op = OpTy::create(rewriter, root->getLoc(), std::forward<Args>(args)...);
  standFor(op, root, getOpId(root));
  rewriter.replaceOp(root, op);
  return op;
}

/// Names an operation that a pattern makes besides the one that takes the id of `root`.
inline void nameAfter(Operation *op, Operation *root, const Twine &part) {
  standFor(op, root, getOpId(root) + "/" + part);
}

/// `number` (of integers: a whole one) in every element of a tensor, made of a constant; both are
/// named after `root`. Without a name of its own the constant is a part of what is called `name`.
Value repeatNumber(OpBuilder &builder, Operation *root, RankedTensorType type, double number,
                   const Twine &name, const Twine &constantName = "");

/// [b, heads, rows, size] as [b, rows, heads, size], or back; named after `root`.
TransposeOp swapHeadsAndRows(OpBuilder &builder, Operation *root, Value value, const Twine &name);

/// Lets those who swap heads and rows of what was swapped, as models do, read what it was.
void readUnswapped(Value swapped);

} // namespace mlir::autopar
