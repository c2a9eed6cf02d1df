// SPDX-License-Identifier: Apache-2.0
// What the patterns of autopar-raise-composites have in common: constants that fill a whole tensor,
// values that hold one number per row, and the check that a match leaves nothing behind.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace mlir::autopar {

/// The number that fills the tensor `value`: a splat constant, seen through broadcasts, reshapes
/// and transposes; nothing for any other value.
std::optional<double> splatValue(Value value);

/// Whether two numbers agree up to the rounding of constants of element type `element`, and up to
/// the digits that people write.
bool isAbout(double value, double expected, Type element);
/// Whether every element of the tensor `value` is about `expected`.
bool isSplatOf(Value value, double expected);

/// `value` as an operation of the given kind; null if it is something else.
UnaryOp asUnary(Value value, UnaryKind kind);
BinaryOp asBinary(Value value, BinaryKind kind);
/// The operand of a `kind` that is no splat, together with the number that the other one holds. A
/// sum or product may have the number on either side, other kinds on the right.
std::optional<std::pair<Value, double>> withNumber(Value value, BinaryKind kind);

/// For each dimension of a reshape's result the operand dimension that it equals, -1 for dimensions
/// of extent 1; nothing unless the reshape merely inserts or removes such dimensions.
std::optional<SmallVector<int64_t>> unitReshapeDims(ReshapeOp op);

/// What heads share, where [b, groups, s, d] is repeated to [b, heads, s, d]; else null.
Value sharedByHeads(Value value);

/// The operations that a pattern has walked over.
class MatchedOps {
public:
  void insert(Value value) {
    if (Operation *op = value.getDefiningOp())
      ops.insert(op);
  }
  /// Whether nothing but `root` and matched operations uses the matched ones, so that replacing
  /// `root` removes them all.
  bool areDeadWithout(Operation *root) const;

private:
  llvm::SmallPtrSet<Operation *, 16> ops;
};

/// A tensor followed upwards from a use, through what repeats it: broadcasts and reshapes that
/// insert or remove unit dimensions.
class RowView {
public:
  /// Starts at `outer`; steps are noted in `matched`.
  RowView(Value outer, MatchedOps &matched);

  /// What is repeated.
  Value get() const { return value; }
  /// Goes on at an operand of the current value's elementwise operation.
  void descend(Value operand);

  /// The input of the reduction that this is, if every row of `outer` holds what its own row of
  /// that input reduces to; `dims` are the reduced dimensions. Null otherwise.
  Value reducedInput(ReduceKind kind, SmallVector<int64_t> &dims);
  /// The same for a mean: a sum divided by the number of its terms.
  Value meanInput(SmallVector<int64_t> &dims);

private:
  void strip();
  Value sumInput(ReduceKind kind, SmallVector<int64_t> &dims);

  Value value;
  /// Per dimension of `outer` the dimension of `value` that it runs along, or -1 where it repeats.
  SmallVector<int64_t> source;
  MatchedOps &matched;
};

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

/// `number` in every element of a tensor, made of a constant; named after `root`.
Value repeatNumber(OpBuilder &builder, Operation *root, RankedTensorType type, double number,
                   StringRef name);

/// [b, heads, rows, size] as [b, rows, heads, size], or back; named after `root`.
TransposeOp swapHeadsAndRows(OpBuilder &builder, Operation *root, Value value, const Twine &name);

/// Lets those who swap heads and rows of what was swapped, as models do, read what it was.
void readUnswapped(Value swapped);

void populateActivationPatterns(RewritePatternSet &patterns);
void populateRowPatterns(RewritePatternSet &patterns);
void populateArithmeticPatterns(RewritePatternSet &patterns);
void populateDataMovementPatterns(RewritePatternSet &patterns);
void populateGroupedProductPatterns(RewritePatternSet &patterns);

} // namespace mlir::autopar
