// SPDX-License-Identifier: Apache-2.0
// Products of attention: a tile of sums stays in registers while a row of words, one per tile row,
// meets a row of vectors. A word is one float, or two bf16 terms where the processor multiplies
// those.
#pragma once

#include "AttentionVectors.h"

#include <immintrin.h>

namespace autopar::cpumath::attention {

/// Rows of a tile; its columns are as many vectors as the registers hold beside.
constexpr int64_t kTileRows = 6;

/// An operand of which single words are read.
struct Left {
  const float *data;
  int64_t rowStride, wordStride;
};

/// Words of one float: c += left * right, or = where it does not add, for 6 rows of so many
/// vectors.
template <int Lanes>
struct Wide {
  static constexpr int kLanes = Lanes, kTerms = 1;

  template <int Vectors>
  static AUTOPAR_INLINE void tile(const Left &left, int64_t words, const Rows &right, const Rows &c,
                                  bool adds) {
    using Floats = typename Vector<Lanes>::Floats;
    Floats sums[kTileRows][Vectors];
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < Vectors; ++j) {
        sums[i][j] = Floats{};
        if (adds)
          load(c.data + i * c.stride + j * Lanes, sums[i][j]);
      }
    for (int64_t k = 0; k < words; ++k) {
      Floats v[Vectors];
      for (int j = 0; j < Vectors; ++j)
        load(right.data + k * right.stride + j * Lanes, v[j]);
      const float *a = left.data + k * left.wordStride;
      for (int i = 0; i < kTileRows; ++i) {
        float x = a[i * left.rowStride];
        for (int j = 0; j < Vectors; ++j)
          sums[i][j] = sums[i][j] + x * v[j];
      }
    }
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < Vectors; ++j)
        store(sums[i][j], c.data + i * c.stride + j * Lanes);
  }

  /// Rows whose numbers are terms, for the left.
  static AUTOPAR_INLINE void readLeft(DataType type, const uint8_t *from, int64_t rowBytes,
                                      int64_t count, int64_t room, int64_t length, const Rows &to) {
    for (int64_t i = 0; i < room; ++i)
      readRow<Lanes>(type, from + i * rowBytes, i < count ? length : 0, to.data + i * to.stride,
                     roundUp(length, Lanes));
  }
  /// Rows that are terms themselves, for the right.
  static AUTOPAR_INLINE void readRight(DataType type, const uint8_t *from, int64_t rowBytes,
                                       int64_t count, int64_t room, int64_t length,
                                       const Rows &to) {
    readLeft(type, from, rowBytes, count, room, length, to);
  }
  /// Floats of a row for the left, where they are; of rows, as the terms of the left.
  static AUTOPAR_INLINE void narrow(float *, int64_t) {}
  static AUTOPAR_INLINE void pairFloats(const Rows &, int64_t, int64_t, const Rows &) {}
};

#define AUTOPAR_PAIRS                                                                              \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")))

/// Words of two bf16, whose products the processor adds to a float.
struct Paired {
  static constexpr int kLanes = 16, kTerms = 2;

  template <int Vectors>
  AUTOPAR_PAIRS static void tile(const Left &left, int64_t words, const Rows &right, const Rows &c,
                                 bool adds) {
    __m512 sums[kTileRows][Vectors];
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < Vectors; ++j)
        sums[i][j] =
            adds ? _mm512_loadu_ps(c.data + i * c.stride + j * kLanes) : _mm512_setzero_ps();
    for (int64_t k = 0; k < words; ++k) {
      __m512bh v[Vectors];
      for (int j = 0; j < Vectors; ++j)
        v[j] = __m512bh(_mm512_loadu_ps(right.data + k * right.stride + j * kLanes));
      const float *a = left.data + k * left.wordStride;
      for (int i = 0; i < kTileRows; ++i) {
        auto x = __m512bh(_mm512_set1_ps(a[i * left.rowStride]));
        for (int j = 0; j < Vectors; ++j)
          sums[i][j] = _mm512_dpbf16_ps(sums[i][j], x, v[j]);
      }
    }
    for (int i = 0; i < kTileRows; ++i)
      for (int j = 0; j < Vectors; ++j)
        _mm512_storeu_ps(c.data + i * c.stride + j * kLanes, sums[i][j]);
  }

  static AUTOPAR_INLINE void readLeft(DataType, const uint8_t *from, int64_t rowBytes,
                                      int64_t count, int64_t room, int64_t length, const Rows &to) {
    for (int64_t i = 0; i < room; ++i)
      pairTerms(from + i * rowBytes, i < count ? length : 0, to.data + i * to.stride,
                roundUp(length, 2 * kLanes) / 2);
  }
  static AUTOPAR_INLINE void readRight(DataType, const uint8_t *from, int64_t rowBytes,
                                       int64_t count, int64_t room, int64_t length,
                                       const Rows &to) {
    for (int64_t i = 0; i < room; i += kTerms)
      pairRows(from + i * rowBytes, i < count ? length : 0, from + (i + 1) * rowBytes,
               i + 1 < count ? length : 0, to.data + i / kTerms * to.stride,
               roundUp(length, kLanes));
  }
  /// Words of two rows each, from floats.
  AUTOPAR_PAIRS static void pairFloats(const Rows &from, int64_t rows, int64_t length,
                                       const Rows &to) {
    for (int64_t i = 0; i < rows; i += 2)
      for (int64_t j = 0; j < length; j += kLanes) {
        const float *at = from.data + i * from.stride + j;
        auto halves = [&](const float *x) __attribute__((always_inline)) AUTOPAR_PAIRS {
          return _mm512_cvtepu16_epi32(__m256i(_mm512_cvtneps_pbh(_mm512_loadu_ps(x))));
        };
        _mm512_storeu_si512(
            to.data + i / 2 * to.stride + j,
            _mm512_or_si512(halves(at), _mm512_slli_epi32(halves(at + from.stride), 16)));
      }
  }
  AUTOPAR_PAIRS static void narrow(float *row, int64_t length) {
    for (int64_t j = 0; j < length; j += kLanes) {
      auto halves = __m256i(_mm512_cvtneps_pbh(_mm512_loadu_ps(row + j)));
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(row + j / 2), halves);
    }
  }

private:
  /// A row of memory as words, and zeros.
  static AUTOPAR_INLINE void pairTerms(const uint8_t *row, int64_t length, float *to,
                                       int64_t room) {
    for (int64_t j = 0; j < room; j += kLanes) {
      Vector<kLanes>::Floats words{};
      if (2 * (j + kLanes) <= length)
        load(row + j * 4, words);
      else if (2 * j < length)
        std::memcpy(&words, row + j * 4, size_t(length - 2 * j) * 2);
      store(words, to + j);
    }
  }
  /// Two rows of memory as words; of neither more is read than is there.
  static AUTOPAR_INLINE void pairRows(const uint8_t *first, int64_t firstLength,
                                      const uint8_t *second, int64_t secondLength, float *to,
                                      int64_t room) {
    typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
    auto words = [](const uint8_t *row, int64_t length, int64_t j, Words &to)
        __attribute__((always_inline)) {
      Vector<kLanes>::Shorts shorts{};
      if (j + kLanes <= length)
        load(row + j * 2, shorts);
      else if (j < length)
        std::memcpy(&shorts, row + j * 2, size_t(length - j) * 2);
      to = __builtin_convertvector(shorts, Words);
    };
    for (int64_t j = 0; j < room; j += kLanes) {
      Words low, high;
      words(first, firstLength, j, low);
      words(second, secondLength, j, high);
      store(low | high << 16, to + j);
    }
  }
};

/// What of a tile exists: terms from the first to the last, and columns. (Of pairs of terms both
/// are taken where one exists; the other one is zero.)
struct Extent {
  int64_t firstTerm, terms, columns;
};

/// The products of many tiles of rows, of which `extentOf(row)` says what exists; whole vectors are
/// written. A panel of `right` stays in the first cache while all tiles pass by.
template <typename Numbers, typename ExtentOf>
AUTOPAR_INLINE void multiply(const Left &left, int64_t rows, const Rows &right, const Rows &c,
                             int64_t columns, bool adds, const ExtentOf &extentOf) {
  constexpr int Lanes = Numbers::kLanes, kTerms = Numbers::kTerms;
  // 32 registers with AVX-512, 16 otherwise.
  constexpr int kVectors = Lanes == 16 ? 4 : 2;
  for (int64_t j = 0; j < columns; j += kVectors * Lanes)
    for (int64_t row = 0; row < rows; row += kTileRows) {
      Extent extent = extentOf(row);
      int64_t firstWord = extent.firstTerm / kTerms;
      int64_t words = (extent.terms + kTerms - 1) / kTerms - firstWord;
      int64_t vectors = (std::min(columns, extent.columns) - j + Lanes - 1) / Lanes;
      if (vectors <= 0 || (words <= 0 && adds))
        continue;
      Left leftHere{left.data + row * left.rowStride + firstWord * left.wordStride, left.rowStride,
                    left.wordStride};
      Rows rightHere{right.data + firstWord * right.stride + j, right.stride};
      Rows cHere{c.data + row * c.stride + j, c.stride};
      if (vectors >= kVectors)
        Numbers::template tile<kVectors>(leftHere, words, rightHere, cHere, adds);
      else if (vectors == 1)
        Numbers::template tile<1>(leftHere, words, rightHere, cHere, adds);
      else if (vectors == 2)
        Numbers::template tile<2>(leftHere, words, rightHere, cHere, adds);
      else
        Numbers::template tile<3>(leftHere, words, rightHere, cHere, adds);
    }
}

/// The stride of rows that hold so many floats: whole vectors, of which panels of four lie apart in
/// the sets of the first cache.
inline int64_t strideFor(int64_t floats) {
  int64_t vectors = (floats + 15) / 16;
  return 16 * (vectors <= 4 || vectors % 2 == 1 ? vectors : vectors + 1);
}

} // namespace autopar::cpumath::attention
