// SPDX-License-Identifier: Apache-2.0
// Operands of bf16 products as tile registers take them. A tile of rows holds 16 rows of 32 terms,
// a tile of columns 16 pairs of terms of 16 columns; one is the other with its 32-bit words
// transposed. So an operand whose terms are contiguous lies ready for the left side and any other
// for the right. A panel is two tiles per step of 32 terms.
#pragma once

#include "LineWalk.h"
#include "Transpose.h"

#include <algorithm>
#include <cstdint>

#define AUTOPAR_HALF                                                                               \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#define AUTOPAR_HALF_INLINE AUTOPAR_HALF inline __attribute__((always_inline))

namespace autopar::cpumath {

constexpr int64_t kTile = 16, kTileBytes = 1024, kTileTerms = 32;
constexpr int64_t kPanel = 2 * kTile, kPanelBytes = 2 * kTileBytes; ///< of one step of 32 terms

inline int64_t ceilDiv(int64_t value, int64_t step) { return (value + step - 1) / step; }

/// One operand: `outer` rows (or columns) of `depth` terms.
struct Side {
  const uint8_t *data;
  int64_t outer, outerStride, depthStride;
  bool isFloat;

  int64_t panels() const { return ceilDiv(outer, kPanel); }
  int64_t elementBytes() const { return isFloat ? 4 : 2; }
  const uint8_t *at(int64_t first, int64_t term) const {
    return data + (first * outerStride + term * depthStride) * elementBytes();
  }
};

/// 32 numbers as bf16, those beyond the mask being zero.
AUTOPAR_HALF_INLINE __m512i readHalves(const Side &side, const uint8_t *from, __mmask32 mask) {
  if (!side.isFloat)
    return _mm512_maskz_loadu_epi16(mask, from);
  return __m512i(_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(__mmask16(mask >> 16), from + 64),
                                     _mm512_maskz_loadu_ps(__mmask16(mask), from)));
}

/// Indices that interleave the lower halves of two registers, and the upper ones.
AUTOPAR_HALF_INLINE __m512i interleaveLow() {
  return _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38,
                          6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
}
AUTOPAR_HALF_INLINE __m512i interleaveHigh() {
  return _mm512_add_epi16(interleaveLow(), _mm512_set1_epi16(16));
}

/// Both tiles of a step in the order of rows, from contiguous terms; what does not exist is zero.
AUTOPAR_HALF_INLINE void copyTiles(const Side &side, int64_t first, int64_t term, int64_t depth,
                                   __m512i tiles[2][16]) {
  int64_t outer = std::min(kPanel, side.outer - first);
  auto mask = __mmask32((uint64_t(1) << std::min(kTileTerms, depth - term)) - 1);
  for (int64_t i = 0; i < kPanel; ++i)
    tiles[i / kTile][i % kTile] =
        i < outer ? readHalves(side, side.at(first + i, term), mask) : _mm512_setzero_si512();
}

/// The same in the order of columns, from terms that lie apart.
AUTOPAR_HALF_INLINE void interleaveTiles(const Side &side, int64_t first, int64_t term,
                                         int64_t depth, __m512i tiles[2][16]) {
  auto mask = __mmask32((uint64_t(1) << std::min(kPanel, side.outer - first)) - 1);
  int64_t terms = std::min(kTileTerms, depth - term);
  for (int64_t pair = 0; pair < kTile; ++pair) {
    int64_t t = 2 * pair;
    __m512i even = _mm512_setzero_si512(), odd = even;
    if (t < terms)
      even = readHalves(side, side.at(first, term + t), mask);
    if (t + 1 < terms)
      odd = readHalves(side, side.at(first, term + t + 1), mask);
    tiles[0][pair] = _mm512_permutex2var_epi16(even, interleaveLow(), odd);
    tiles[1][pair] = _mm512_permutex2var_epi16(even, interleaveHigh(), odd);
  }
}

/// One panel of a block: per step its two tiles.
AUTOPAR_HALF inline void packPanel(const Side &side, bool asColumns, int64_t panel,
                                   int64_t firstStep, int64_t steps, int64_t depth,
                                   uint8_t *packed) {
  bool areContiguous = side.depthStride == 1, transposes = areContiguous == asColumns;
  for (int64_t s = 0; s < steps; ++s) {
    __m512i tiles[2][16];
    int64_t first = panel * kPanel, term = (firstStep + s) * kTileTerms;
    if (areContiguous)
      copyTiles(side, first, term, depth, tiles);
    else
      interleaveTiles(side, first, term, depth, tiles);
    for (auto &tile : tiles) {
      if (transposes)
        transpose16(tile);
      for (int64_t i = 0; i < kTile; ++i, packed += kLineBytes)
        _mm512_store_si512(packed, tile[i]);
    }
  }
}

} // namespace autopar::cpumath
