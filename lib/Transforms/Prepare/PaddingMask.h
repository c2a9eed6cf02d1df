// SPDX-License-Identifier: Apache-2.0
// Operations that know where a varying extent ends.
#pragma once

#include "VaryingDims.h"

#include "autopar/Dialect/AutoPar/IR/UniqueIds.h"
#include "autopar/Interfaces/ShardingRule.h"

namespace mlir::autopar {

/// Writes them in front of the operation that needs them, and names them after it.
class PaddingMask {
public:
  explicit PaddingMask(func::FuncOp function);

  /// `value` in front of the end; behind it the identity of a reduction, or a scalar. The second
  /// also of two dimensions.
  Value masked(Value value, const Varying &varying, ReductionKind reduction, Operation *root);
  Value masked(Value value, ArrayRef<Varying> varying, Value behind, Operation *root);

  /// By how many steps of its range an extent is below its most: an i64 scalar argument.
  Value missing(StringAttr extent);
  /// How many positions that is, where it is so many for each step.
  Value missing(StringAttr extent, int64_t pace, Operation *root);

  /// The builder, where the last of these stood.
  OpBuilder builder;
  void standBefore(Operation *root) { builder.setInsertionPoint(root); }
  /// Names what `value` is made by as a part of `root`.
  Value named(Value value, Operation *root, StringRef part);
  Value number(Attribute number, Operation *root, StringRef part); ///< a scalar
  Value binary(BinaryKind kind, Value lhs, Value rhs, Operation *root, StringRef part);
  Value cast(Value value, Type element, Operation *root, StringRef part);
  Value spread(Value value, RankedTensorType type, ArrayRef<int64_t> dims, Operation *root,
               StringRef part);

private:
  Value inFront(const Varying &varying, int64_t dimSize);
  Value inFront(ArrayRef<Varying> varying, ArrayRef<int64_t> shape);

  func::FuncOp function;
  UniqueIds ids;
  Operation *first; ///< of the operations that were there
  DenseMap<StringAttr, Value> missingOf;
  /// What a value is a mask of.
  struct Mask {
    Value of;
    Attribute filled;
    Varying varying;
  };
  DenseMap<Value, Mask> masks;
  DenseMap<std::pair<Value, Value>, Value> planes; ///< by the lines of both dimensions
  /// By extent, size, pace, inner, tail and the extent of the dimension.
  DenseMap<std::tuple<Attribute, int64_t, int64_t, int64_t, int64_t, int64_t>, Value> lines;
};

} // namespace mlir::autopar
