// SPDX-License-Identifier: Apache-2.0
// What DenseProduct is made of: panels of its operands, or of the sum of two blocks of them, and
// the tile of sums that stays in registers while a panel of a (8 rows) meets a panel of b (48
// columns).
#pragma once

#include "LineWalk.h"
#include "Transpose.h"

#include <algorithm>
#include <cstdint>

namespace autopar::cpumath {

constexpr int kLanes = 16, kVectors = 3;
constexpr int64_t kTileRows = 8, kTileColumns = kLanes * kVectors;
constexpr int64_t kFloatsPerLine = 16;
/// Steps of depth per line fetched for the next block, and how far panels are fetched ahead.
constexpr int64_t kStepsPerLine = 8, kStepsAhead = 2;

/// What the next blocks need: of b, and of a where it is packed in parts.
struct Fetches {
  LineWalk first, second;
  void fetch() { (first.rowsLeft > 0 ? first : second).fetch<false>(); }
};

/// A block, or two of the same strides that are added or subtracted.
enum class Joined { One, Sum, Difference };
struct Summands {
  const float *first, *second;

  Summands at(int64_t offset) const { return {first + offset, second ? second + offset : nullptr}; }
};

template <Joined How>
AUTOPAR_AVX512_INLINE __m512 load16(Summands from, __mmask16 mask = 0xffff) {
  __m512 x = _mm512_maskz_loadu_ps(mask, from.first);
  if (How == Joined::One)
    return x;
  __m512 y = _mm512_maskz_loadu_ps(mask, from.second);
  return How == Joined::Sum ? _mm512_add_ps(x, y) : _mm512_sub_ps(x, y);
}

template <Joined How>
AUTOPAR_AVX512_INLINE __m256 load8(Summands from) {
  __m256 x = _mm256_loadu_ps(from.first);
  if (How == Joined::One)
    return x;
  __m256 y = _mm256_loadu_ps(from.second);
  return How == Joined::Sum ? _mm256_add_ps(x, y) : _mm256_sub_ps(x, y);
}

template <Joined How>
inline float load1(Summands from) {
  if (How == Joined::One)
    return *from.first;
  return How == Joined::Sum ? *from.first + *from.second : *from.first - *from.second;
}

/// One place for the sums of a tile: c = +-sums + bias + addend.
struct TileTarget {
  float *c = nullptr;
  const float *bias = nullptr, *addend = nullptr; ///< null: none; the addend has the stride of c
  bool subtracts = false;
};

struct TileStore {
  int64_t stride, rows;
  TileTarget targets[2]; ///< the second may be without a place
};

enum class PanelB { Packed, Source };

/// One tile. `Source`: b lies in rows of `bStride` and is packed on the way. `Full`: all columns
/// exist.
template <PanelB Kind, Joined How, bool Full, bool IsTerm>
AUTOPAR_AVX512 void tile(int64_t depth, const float *a, Summands b, int64_t bStride, float *packed,
                         int64_t columns, const TileStore &store, Fetches &next) {
  __mmask16 masks[kVectors];
  for (int j = 0; j < kVectors; ++j)
    masks[j] = Full ? __mmask16(0xffff)
                    : __mmask16((1u << std::clamp<int64_t>(columns - j * kLanes, 0, kLanes)) - 1);
  __m512 sums[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kTileRows; ++i)
    for (int j = 0; j < kVectors; ++j)
      sums[i][j] = _mm512_setzero_ps();
  auto step = [&](int64_t k) __attribute__((always_inline)) AUTOPAR_AVX512 {
    __m512 v[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      if (Kind == PanelB::Packed) {
        v[j] = _mm512_load_ps(b.first + k * kTileColumns + j * kLanes);
        _mm_prefetch(b.first + (k + kStepsAhead) * kTileColumns + j * kLanes, _MM_HINT_T0);
      } else {
        v[j] = load16<How>(b.at(k * bStride + j * kLanes), masks[j]);
        _mm_prefetch(b.first + (k + kStepsAhead) * bStride + j * kLanes, _MM_HINT_T0);
        if (How != Joined::One)
          _mm_prefetch(b.second + (k + kStepsAhead) * bStride + j * kLanes, _MM_HINT_T0);
        _mm512_store_ps(packed + k * kTileColumns + j * kLanes, v[j]);
      }
    }
    for (int i = 0; i < kTileRows; ++i) {
      __m512 x = _mm512_set1_ps(a[k * kTileRows + i]);
      for (int j = 0; j < kVectors; ++j)
        sums[i][j] = _mm512_fmadd_ps(x, v[j], sums[i][j]);
    }
  };
  LineWalk result(store.targets[0].c, store.rows, store.stride, columns);
  int64_t k = 0;
  for (; k + kStepsPerLine <= depth; k += kStepsPerLine) {
    for (int line = 0; line < (IsTerm ? 3 : 1); ++line)
      next.fetch();
    result.fetch<true>();
    for (int64_t s = 0; s < kStepsPerLine; ++s)
      step(k + s);
  }
  for (; k < depth; ++k)
    step(k);
  auto put = [&](const TileTarget &target) __attribute__((always_inline)) AUTOPAR_AVX512 {
    __m512 added[kVectors];
    for (int j = 0; j < kVectors; ++j)
      added[j] = target.bias ? _mm512_maskz_loadu_ps(masks[j], target.bias + j * kLanes)
                             : _mm512_setzero_ps();
    auto finish = [&](int i) __attribute__((always_inline)) AUTOPAR_AVX512 {
      int64_t row = i * store.stride;
      for (int j = 0; j < kVectors; ++j) {
        __m512 sum = _mm512_add_ps(sums[i][j], added[j]);
        if (target.addend)
          sum =
              _mm512_add_ps(sum, _mm512_maskz_loadu_ps(masks[j], target.addend + row + j * kLanes));
        _mm512_mask_storeu_ps(target.c + row + j * kLanes, masks[j], sum);
      }
    };
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i)
      if (i < store.rows)
        finish(i);
  };
  put(store.targets[0]);
  if (!IsTerm || !store.targets[1].c)
    return;
  if (store.targets[1].subtracts)
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < kVectors; ++j)
        sums[i][j] = _mm512_sub_ps(_mm512_setzero_ps(), sums[i][j]);
  put(store.targets[1]);
}

/// to[k][j] = from[j][k] for 16 x 16 elements.
template <Joined How>
AUTOPAR_AVX512_INLINE void transposeTo(Summands from, int64_t fromStride, float *to,
                                       int64_t toStride) {
  __m512i rows[16];
  for (int i = 0; i < 16; ++i)
    rows[i] = _mm512_castps_si512(load16<How>(from.at(i * fromStride)));
  transpose16(rows);
  for (int i = 0; i < 16; ++i)
    _mm512_store_si512(to + i * toStride, rows[i]);
}

/// Columns that are contiguous along the depth: packs one panel by transposing.
template <Joined How>
AUTOPAR_AVX512 void packColumns(Summands b, int64_t columnStride, int64_t columns, int64_t depth,
                                float *packed) {
  int64_t k = 0;
  if (columns == kTileColumns)
    for (; k + kLanes <= depth; k += kLanes)
      for (int j = 0; j < kVectors; ++j)
        transposeTo<How>(b.at(j * kLanes * columnStride + k), columnStride,
                         packed + k * kTileColumns + j * kLanes, kTileColumns);
  for (; k < depth; ++k)
    for (int64_t j = 0; j < kTileColumns; ++j)
      packed[k * kTileColumns + j] = j < columns ? load1<How>(b.at(j * columnStride + k)) : 0;
}

/// to[k][i] = from[i][k] for 8 rows of 8.
template <Joined How>
AUTOPAR_AVX512_INLINE void transpose8(Summands from, int64_t stride, float *to) {
  __m256 u[8], v[8];
  for (int i = 0; i < 8; i += 2) {
    __m256 x = load8<How>(from.at(i * stride)), y = load8<How>(from.at((i + 1) * stride));
    u[i] = _mm256_unpacklo_ps(x, y);
    u[i + 1] = _mm256_unpackhi_ps(x, y);
  }
  for (int i = 0; i < 8; i += 4) {
    v[i] = _mm256_shuffle_ps(u[i], u[i + 2], 0x44);
    v[i + 1] = _mm256_shuffle_ps(u[i], u[i + 2], 0xee);
    v[i + 2] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0x44);
    v[i + 3] = _mm256_shuffle_ps(u[i + 1], u[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_store_ps(to + i * 8, _mm256_permute2f128_ps(v[i], v[i + 4], 0x20));
    _mm256_store_ps(to + (4 + i) * 8, _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
  }
}

/// Rows that are contiguous across: two panels of 8 at a time, which share their lines.
template <Joined How>
AUTOPAR_AVX512 void packAcross(Summands from, int64_t stride, int64_t depth, float *packed) {
  for (int64_t k = 0; k < depth; ++k) {
    Summands here = from.at(k * stride);
    _mm_prefetch(here.first + kFloatsPerLine, _MM_HINT_T0);
    _mm256_store_ps(packed + k * kTileRows, load8<How>(here));
    _mm256_store_ps(packed + (depth + k) * kTileRows, load8<How>(here.at(kTileRows)));
  }
}

/// Panels of 8 rows, each [depth][8]; rows that do not exist are zero.
template <Joined How>
AUTOPAR_AVX512 void packRows(Summands a, int64_t rowStride, int64_t depthStride, int64_t rows,
                             int64_t depth, float *packed) {
  int64_t i = 0;
  if (rowStride == 1)
    for (; i + 2 * kTileRows <= rows; i += 2 * kTileRows)
      packAcross<How>(a.at(i), depthStride, depth, packed + i * depth);
  for (; i < rows; i += kTileRows) {
    Summands from = a.at(i * rowStride);
    float *to = packed + i * depth;
    int64_t k = 0, here = std::min(kTileRows, rows - i);
    if (here == kTileRows && depthStride == 1)
      for (; k + 8 <= depth; k += 8)
        transpose8<How>(from.at(k), rowStride, to + k * kTileRows);
    for (; k < depth; ++k)
      for (int64_t r = 0; r < kTileRows; ++r)
        to[k * kTileRows + r] = r < here ? load1<How>(from.at(r * rowStride + k * depthStride)) : 0;
  }
}

} // namespace autopar::cpumath
