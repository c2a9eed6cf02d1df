// SPDX-License-Identifier: Apache-2.0
// Attention as one call, forward and backward: scores are computed block by block and never stored
// whole. The forms are those of Dao, "FlashAttention-2" (2023), algorithms 1 and 2.
#pragma once

#include "autopar/Base/DataType.h"
#include "autopar/Base/Status.h"

#include <cstdint>

namespace autopar::cpumath {

/// Elements from one batch, head and row to the next; the elements of a row are contiguous.
struct AttentionStrides {
  int64_t batch = 0, head = 0, row = 0;
};

/// o = softmax(scale q k^T + bias) v for every batch and head; query head h reads the keys and
/// values of head h / (heads / groups).
struct AttentionShape {
  DataType type = DataType::F32; ///< of all tensors but lse and the bias: F32, BF16 or F16
  int64_t batch = 0, heads = 0, groups = 0; ///< groups (heads of keys and values) divides heads
  int64_t queries = 0, keys = 0, depth = 0, valueDepth = 0;
  float scale = 1;
  /// Query i sees keys j <= i + keys - hiddenKeys - queries only.
  bool isCausal = false;
  int64_t hiddenKeys = 0; ///< of a triangle: the last ones, which no query sees
  int64_t window = 0; ///< of a triangle: of the keys that a query sees, the last so many; 0: all
  bool hasBias = false;
  DataType biasType = DataType::F32; ///< F32 or that of the others
  AttentionStrides q, k, v, o;
  AttentionStrides bias;           ///< of [batch, heads, queries, keys]; 0 repeats
  AttentionStrides dO, dQ, dK, dV; ///< used by the backward call only
};

/// What the forward call reads and writes. lse is float32 [batch, heads, queries], contiguous, and
/// null where nobody needs it: the logarithm of the sum of the exponentials of a row's scores. A
/// row that sees no key, or only keys with a bias of -inf, has zeros in o and -inf in lse. One
/// whose biases are all below -2^17, as masks have it, has the mean of its values in o, also -inf
/// in lse, and so no gradient.
struct AttentionForward {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *bias = nullptr;
  void *o = nullptr;
  float *lse = nullptr;
};

/// What the backward call reads and writes; dk and dv are summed over the query heads of a group.
struct AttentionBackward {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *bias = nullptr, *o = nullptr;
  const float *lse = nullptr;
  const void *dO = nullptr;
  void *dQ = nullptr, *dK = nullptr, *dV = nullptr;
};

/// Ok, or what of the shape these calls do not take.
Status verifyAttention(const AttentionShape &shape);

/// Of the scratch for either call on up to so many threads, at a multiple of 64.
int64_t attentionScratchBytes(const AttentionShape &shape, int threads);
int64_t attentionBackwardScratchBytes(const AttentionShape &shape, int threads);

/// Terms in the vectors of this processor that products of this type use: 32 where it multiplies
/// pairs of bf16, otherwise floats: 16, 8 or 4.
int attentionLanes(DataType type);

/// On `threads` threads of the calling thread's OpenMP pool. The result is the same to the bit for
/// any number of them. Results may not overlap what is read. `lanes`: one of those numbers, no
/// more than attentionLanes(), which 0 stands for.
void attentionForward(const AttentionShape &shape, const AttentionForward &operands, void *scratch,
                      int threads, int lanes = 0);
void attentionBackward(const AttentionShape &shape, const AttentionBackward &operands,
                       void *scratch, int threads, int lanes = 0);

} // namespace autopar::cpumath
