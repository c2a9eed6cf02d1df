// SPDX-License-Identifier: Apache-2.0
// What the attention operators of onnxruntime's own (contrib operators) have in common.
#pragma once

#include "Attentions.h"

namespace mlir::autopar {

/// [b, heads, s, d]
struct Projections {
  Value query, key, value;
};

/// Refuses inputs that are not read here, for the reason given.
LogicalResult refuseInputs(Node &node, ArrayRef<size_t> inputs, StringRef why);
/// Refuses other values of an integer attribute than `only`.
LogicalResult refuseAttribute(Node &node, StringRef name, int64_t only);
/// The scale of scores; 0 stands for the usual one, too.
double scaleOf(Node &node, Value query);
/// Whether they fit each other, as scores and as weights of values.
LogicalResult checkProjections(Node &node, const Projections &in);

/// Keys by their positions, for queries the first of which is at `start` [b] or, where that is
/// null, at `offset`.
struct Positions {
  TensorBuilder &b;
  int64_t queries, keys, offset;
  Value start;

  Value column() const;
  /// Of the queries, over [q, k] or [b, 1, q, k].
  Value row() const;
  /// Keys up to the query's own position.
  Value causal() const;
  /// Keys behind the `window`th before the query's own.
  Value within(int64_t window) const;
};

LogicalResult importGroupQueryAttention(Node &node);

} // namespace mlir::autopar
