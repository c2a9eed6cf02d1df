// SPDX-License-Identifier: Apache-2.0
// Rewrites the computation of a value so that one of its dimensions appears as two. Where the
// computation starts at parameters this moves nothing: they are read under another shape.
#pragma once

#include "ParameterShape.h"

namespace mlir::autopar {

/// The result dimension of `reshape` that is the major part of dimension `dim` of its input, where
/// that dimension is cut into several; nothing otherwise.
std::optional<int64_t> majorPart(ReshapeOp reshape, int64_t dim);

/// Splits dimension `d` of extent `blocks * size` into `blocks` by `size`.
class DimensionSplitter {
public:
  /// With `endsAtReshapes` a reshape that merges just the two parts ends the way up as well.
  DimensionSplitter(ParameterShape &parameters, int64_t blocks, bool endsAtReshapes = false)
      : parameters(parameters), blocks(blocks), endsAtReshapes(endsAtReshapes) {}

  /// Whether split() knows how to go on at the operands of `op`.
  static bool isFollowed(Operation *op);
  /// Whether split() can follow the dimension up to parameters and constants: through elementwise
  /// operations, broadcasts, reshapes, transposes and one side of a matrix product, all of which
  /// nobody else uses.
  bool canSplit(Value value, int64_t dim, int depth = 16) const;
  /// The split value. New operations stand before the old ones and take over their ids; the old
  /// ones, but for `value`'s own, are left without users. Parameters change at once.
  Value split(Value value, int64_t dim);
  /// Removes the operations that split() replaced; none of them may have users.
  void eraseReplaced();

  /// `type` with dimension `dim` split.
  RankedTensorType splitType(RankedTensorType type, int64_t dim) const;

private:
  bool canSplitOperands(Operation *op, int64_t dim, int depth) const;
  bool mergesParts(ReshapeOp op, int64_t dim) const;
  bool mayFollow(Value value, int64_t dim, int depth) const;
  Value splitDot(OpBuilder &builder, DotGeneralOp op, int64_t dim, RankedTensorType type);
  Value splitElementwise(OpBuilder &builder, Operation *op, int64_t dim, RankedTensorType type);
  Value splitMovement(OpBuilder &builder, Operation *op, int64_t dim, RankedTensorType type);

  ParameterShape &parameters;
  int64_t blocks;
  bool endsAtReshapes;
  SmallVector<Operation *> replaced;
};

} // namespace mlir::autopar
