// SPDX-License-Identifier: Apache-2.0
// What the attention operators of ONNX and of onnxruntime have in common: heads, scores, rotary
// embedding, caches.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// [b, s, heads * d] as [b, heads, s, d].
FailureOr<Value> splitHeads(Node &node, Value x, int64_t heads);
/// The inverse of splitHeads.
Value mergeHeads(TensorBuilder &b, Value x);
/// Every head `times` times, next to each other.
Value repeatHeads(TensorBuilder &b, Value x, int64_t times);

/// What happens between the two products of an attention. Values may be null.
struct ScoreTerms {
  double scale = 1, softcap = 0;
  Value bias;     ///< added to the scores, broadcasts to [b, heads, q, k]
  Value allowed;  ///< booleans, broadcast alike: where false, nothing is attended
  Value sink;     ///< [heads]: one more score in each row, of a key whose value is zero
  Type precision; ///< of the softmax; null: that of the query
  /// Rows that may attend nothing yield zeros.
  bool clearsHiddenRows = false;
};

/// An attention, and its scores on the way.
struct Attended {
  Value products, capped, masked, weights, output;
};

/// Of query [b, heads, q, d], key [b, heads or fewer, k, d] and value [b, as key, k, v].
Attended attend(TensorBuilder &b, Value query, Value key, Value value, const ScoreTerms &terms);

/// x [b, heads, s, d] with its first channels turned by the angles whose cosines and sines are
/// given as [b or 1, s, half of these channels].
Value rotate(TensorBuilder &b, Value x, Value cosine, Value sine, bool interleaved);
/// Rows of a table [rows, d] at integer positions [...].
Value rowsAt(TensorBuilder &b, Value table, Value positions);

/// Rows of `update` written at each batch entry's own position along `axis`, from `start` [b] of
/// i64 on, in the cache's place where nothing else reads it. Rows behind its end are dropped, or
/// come round to its beginning.
Value writeRows(TensorBuilder &b, Value cache, Value update, Value start, int64_t axis,
                bool circular = false);

} // namespace mlir::autopar
