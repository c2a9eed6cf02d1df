// SPDX-License-Identifier: Apache-2.0
// Attention as models write it, in products and a softmax: what weighs the values, and what stands
// between the softmax and the product of queries and keys.
#pragma once

#include "TriangleMask.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include <optional>

namespace mlir::autopar {

/// What weighs the values, [batch, heads, rows, columns]: a softmax; one whose rows that see
/// nothing are zero; or one without its last column, a sink.
struct AttentionWeights {
  SoftmaxOp softmax;
  Value scores; ///< what the softmax is of, without the sink
  Value sink;   ///< of each row, [batch, heads, rows, 1]; null where there is none
  /// Whether rows are zero where all scores are -inf.
  bool clears = false;
  ReduceOp largest; ///< which looks for such rows; null where something else does

  static std::optional<AttentionWeights> read(Value value);
};

/// What stands between the product of queries and keys and the softmax.
struct AttentionScores {
  DotGeneralOp product;
  Value query, key; ///< its operands without the numbers that multiply them
  double scale = 1;
  bool causal = false;
  int64_t window = 0; ///< of the columns that a causal row sees, the last so many; 0: all
  Value bias;         ///< as it is added, repeated to the shape of the scores or to be repeated
  Value seen;         ///< conditions that are no triangle, alike; where one is false stands `fill`
  double fill = 0;
  /// Conditions of columns, repeated to the shape of the scores: where one is false no row sees the
  /// column, whatever else a mask says. Null where they are all there is (`seen`).
  Value columns;
  /// A bias that holds triangle and conditions, where the model adds both at once; else null.
  Value both;

  /// Walks from the softmax up to the product. What is walked over may have no other reader.
  /// `parts`: a triangle that is part of a mask is told apart of it.
  static std::optional<AttentionScores> read(AttentionWeights weights, TriangleMasks &masks,
                                             bool parts);

private:
  bool takeMask(Value added, TriangleMasks &masks, bool parts);
  bool hide(Value condition, double fill, TriangleMasks &masks, bool parts);
  void hideBy(const Triangle &triangle);
  void takeScales();
};

} // namespace mlir::autopar
