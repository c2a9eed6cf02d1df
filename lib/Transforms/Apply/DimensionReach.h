// SPDX-License-Identifier: Apache-2.0
// How far one dimension of a value reaches: the operations around it that compute each part of it
// on its own.
#pragma once

#include "autopar/Transforms/Sharding.h"

namespace mlir::autopar {

/// A dimension that is split, in so many blocks of equal size: a part has its share of each. Where
/// ranks join their shards along a dimension, theirs are the blocks.
struct SplitPlace {
  int64_t dim = 0, blocks = 1;
  bool operator==(const SplitPlace &other) const {
    return dim == other.dim && blocks == other.blocks;
  }
};

/// Follows a dimension from value to value through factors of which every shard computes its part
/// alone, on local shapes. A group is reached whole or not at all.
class DimensionReach {
public:
  /// Among these operations, which outlive it. `parts`: into how many equal ones the dimension is
  /// to be split.
  DimensionReach(const DenseSet<Operation *> &ops, int64_t parts);

  /// Returns what is reached from there that was not before.
  SmallVector<Operation *> follow(Value value, SplitPlace place);
  void forget(ArrayRef<Operation *> ops);

  bool empty() const { return reached.empty(); }
  bool contains(Operation *op) const { return reached.contains(op); }
  /// Where a result of an operation that is reached is split.
  SplitPlace placeOf(Value result) const { return places.lookup(result); }
  /// Where an operation that is reached splits what it reads; nothing where it reads all of it.
  std::optional<SplitPlace> placeRead(Operation *op, unsigned operand) const;

  /// Of an operation that is reached, or stands in a group that is: its factors, which of them the
  /// parts split, and in how many blocks each operand and result lies.
  struct Split {
    ShardingRule rule;
    FactorAxes axes;
    SmallVector<int64_t> operandBlocks, resultBlocks;
  };
  /// None where it has nothing of the dimension.
  const Split *splitOf(Operation *op) const {
    auto found = splits.find(op);
    return found == splits.end() ? nullptr : &found->second;
  }
  /// The axis that stands for the parts.
  const MeshAxes &axis() const { return parts; }

private:
  using Place = std::pair<Value, SplitPlace>;
  class Attempt;

  const DenseSet<Operation *> &candidates;
  DenseSet<Operation *> reached;
  MeshAxes parts;
  DenseMap<Value, SplitPlace> places;
  DenseMap<Operation *, Split> splits;
};

} // namespace mlir::autopar
