// SPDX-License-Identifier: Apache-2.0
// What the patterns of autopar-raise-composites have in common: constants that fill a whole tensor,
// values that hold one number per row, and the check that a match leaves nothing behind.
#pragma once

#include "StandIns.h"

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

void populateActivationPatterns(RewritePatternSet &patterns);
void populateRowPatterns(RewritePatternSet &patterns);
void populateArithmeticPatterns(RewritePatternSet &patterns);
void populateDataMovementPatterns(RewritePatternSet &patterns);
void populateGroupedProductPatterns(RewritePatternSet &patterns);

} // namespace mlir::autopar
