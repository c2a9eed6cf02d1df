// SPDX-License-Identifier: Apache-2.0
// Writes what a dimension reaches once for each part, beside what is there.
#pragma once

#include "DimensionReach.h"
#include "StepParts.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::autopar {

class PartWriter {
public:
  static constexpr int64_t kParts = 2;

  /// Both outlive it.
  PartWriter(const StepPart &part, const DimensionReach &reach)
      : part(part), reach(reach), builder(part.ops.front()->getContext()) {}

  /// An operation that is placed: at a level, which rises behind collectives, in a slot of it: what
  /// the parts read, the parts one after the other, what reads all of them.
  struct Placed {
    Operation *op;
    int64_t level, slot;
    bool isFree; ///< takes no time
  };
  static constexpr int64_t kBefore = -1, kBehind = kParts;
  static constexpr int64_t kFirstReaders = -1; ///< the level of what reads nothing made here

  /// Failure where an operation cannot be rewritten, or others stand in the way.
  LogicalResult write();
  /// All operations of the step's part, but those that are reached, and their parts: as written.
  ArrayRef<Placed> placed() const { return order; }
  /// Values that are put together from their parts, and what they are then.
  const llvm::MapVector<Value, Value> &wholes() const { return joined; }

  /// Puts the operations in this order. Returns those that were written in parts, to be erased once
  /// nobody asks for them any more.
  SmallVector<Operation *> take(ArrayRef<Placed> placed);
  /// Erases what was written.
  void giveUp();

private:
  using PlaceKey = std::pair<int64_t, int64_t>;

  bool findOutsiders();
  int64_t levelOf(Value value) const;
  bool isPartHere(Value value, SplitPlace place) const;
  template <typename Op, typename... Arguments>
  Value make(Value value, bool isFree, int64_t level, int64_t slot, ArrayRef<int64_t> shape,
             Arguments &&...arguments);
  Value partOf(Value value, SplitPlace place, int64_t number);
  Value wholeOf(Value value);
  FailureOr<SmallVector<Value>> rewrite(Operation *op, ValueRange operands, int64_t number);
  FailureOr<SmallVector<Value>> rewriteGroup(GroupOp group, ValueRange operands, int64_t number);
  LogicalResult writeParts(Operation *op);
  void keep(Operation *op);
  void joinForOutsiders();

  const StepPart &part;
  const DimensionReach &reach;
  OpBuilder builder;
  DenseSet<Operation *> own;             ///< of the step's part
  SmallVector<Operation *> early, late;  ///< of others, that stand among these
  Operation *end = nullptr;              ///< what stands behind them
  DenseMap<Operation *, int64_t> levels; ///< of what reads, in the end, parts
  std::vector<Placed> order;
  IRMapping parts[kParts];
  DenseMap<std::pair<Value, PlaceKey>, Value> slices[kParts];
  llvm::MapVector<Value, Value> joined;
};

} // namespace mlir::autopar
