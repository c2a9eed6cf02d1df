// SPDX-License-Identifier: Apache-2.0
// What attention is computed with beside products: exponentials, rows of numbers, transposition, on
// vectors of `Lanes` floats. Everything is inlined into functions that say for which processors
// they are, so that one text serves all of them; vectors go by reference since their way through
// calls would depend on the processor.
#pragma once

#include "autopar/Base/DataType.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#define AUTOPAR_INLINE inline __attribute__((always_inline))

namespace autopar::cpumath::attention {

constexpr float kLog2E = 1.44269504089f, kLn2 = 0.693147180560f;

inline int64_t roundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

template <int Lanes>
struct Vector {
  typedef float Floats __attribute__((vector_size(Lanes * 4)));
  typedef int32_t Ints __attribute__((vector_size(Lanes * 4)));
  typedef uint16_t Shorts __attribute__((vector_size(Lanes * 2)));
  typedef _Float16 Halves __attribute__((vector_size(Lanes * 2)));
};

template <typename V>
AUTOPAR_INLINE void load(const void *from, V &to) {
  std::memcpy(&to, from, sizeof(V));
}
template <typename V>
AUTOPAR_INLINE void store(const V &from, void *to) {
  std::memcpy(to, &from, sizeof(V));
}

/// 2^x for x <= 127, to about one unit in the last place; 0 below -126. The exponent is the nearest
/// integer, which adding 1.5 * 2^23 leaves in the low bits; a polynomial of least relative error
/// gives the rest.
template <int Lanes>
AUTOPAR_INLINE void exp2Of(const typename Vector<Lanes>::Floats &x,
                           typename Vector<Lanes>::Floats &result) {
  using Floats = typename Vector<Lanes>::Floats;
  using Ints = typename Vector<Lanes>::Ints;
  constexpr float kRounding = 12582912.0f, kSmallest = -126.0f;
  Floats zero{}, smallest = zero + kSmallest;
  Floats t = x < smallest ? smallest : x;
  Floats shifted = t + kRounding;
  Floats f = t - (shifted - kRounding);
  Floats p = f * 1.53533620e-4f + 1.33988739e-3f;
  p = p * f + 9.61843692e-3f;
  p = p * f + 5.55033237e-2f;
  p = p * f + 0.240226477f;
  p = p * f + 0.693147182f;
  p = p * f + 1.0f;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits << 23) + (127 << 23);
  Floats power;
  std::memcpy(&power, &bits, sizeof(bits));
  result = x < smallest ? zero : p * power;
}

template <int Lanes>
AUTOPAR_INLINE float sumOf(const typename Vector<Lanes>::Floats &x) {
  float lanes[Lanes];
  store(x, lanes);
  for (int width = Lanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      lanes[i] += lanes[i + width];
  return lanes[0];
}
template <int Lanes>
AUTOPAR_INLINE float maxOf(const typename Vector<Lanes>::Floats &x) {
  float lanes[Lanes];
  store(x, lanes);
  for (int width = Lanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i)
      lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  return lanes[0];
}

/// `Lanes` numbers from memory as floats.
template <int Lanes>
AUTOPAR_INLINE void loadAsFloats(DataType type, const uint8_t *from,
                                 typename Vector<Lanes>::Floats &to) {
  using V = Vector<Lanes>;
  if (type == DataType::F32) {
    load(from, to);
  } else if (type == DataType::BF16) {
    typename V::Shorts shorts;
    load(from, shorts);
    typename V::Ints bits = __builtin_convertvector(shorts, typename V::Ints) << 16;
    std::memcpy(&to, &bits, sizeof(to));
  } else {
    typename V::Halves halves;
    load(from, halves);
    to = __builtin_convertvector(halves, typename V::Floats);
  }
}
/// The reverse, to the nearest; bf16 that are no numbers stay so.
template <int Lanes>
AUTOPAR_INLINE void storeFloats(DataType type, const typename Vector<Lanes>::Floats &from,
                                uint8_t *to) {
  using V = Vector<Lanes>;
  if (type == DataType::F32) {
    store(from, to);
  } else if (type == DataType::BF16) {
    typedef uint32_t Words __attribute__((vector_size(Lanes * 4)));
    Words bits;
    std::memcpy(&bits, &from, sizeof(bits));
    Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, quiet = (bits >> 16) | 0x40u;
    rounded = from == from ? rounded : quiet;
    store(__builtin_convertvector(rounded, typename V::Shorts), to);
  } else {
    store(__builtin_convertvector(from, typename V::Halves), to);
  }
}

/// Rows of vectors.
struct Rows {
  float *data;
  int64_t stride;
};

/// `count` numbers as floats, and zeros up to `room`, which is whole vectors.
template <int Lanes>
AUTOPAR_INLINE void readRow(DataType type, const uint8_t *from, int64_t count, float *to,
                            int64_t room) {
  int64_t bytes = byteSize(type), i = 0;
  typename Vector<Lanes>::Floats v;
  for (; i + Lanes <= count; i += Lanes) {
    loadAsFloats<Lanes>(type, from + i * bytes, v);
    store(v, to + i);
  }
  for (; i < room; i += Lanes) {
    uint8_t rest[Lanes * 4] = {};
    if (i < count)
      std::memcpy(rest, from + i * bytes, size_t((count - i) * bytes));
    loadAsFloats<Lanes>(type, rest, v);
    store(v, to + i);
  }
}
/// `count` floats times a factor.
template <int Lanes>
AUTOPAR_INLINE void writeRow(DataType type, const float *from, float factor, int64_t count,
                             uint8_t *to) {
  int64_t bytes = byteSize(type);
  for (int64_t i = 0; i < count; i += Lanes) {
    typename Vector<Lanes>::Floats v;
    load(from + i, v);
    v = v * factor;
    if (i + Lanes <= count) {
      storeFloats<Lanes>(type, v, to + i * bytes);
      continue;
    }
    uint8_t rest[Lanes * 4];
    storeFloats<Lanes>(type, v, rest);
    std::memcpy(to + i * bytes, rest, size_t((count - i) * bytes));
  }
}

/// Rows that will be read soon, to the second cache: they lie too far apart for the processor to
/// see them coming.
inline void fetchRows(const uint8_t *from, int64_t rowBytes, int64_t count, int64_t bytes) {
  constexpr int64_t kLineBytes = 64;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t at = 0; at < bytes; at += kLineBytes)
      __builtin_prefetch(from + i * rowBytes + at, 0, 2);
}

/// One step of a transposition: numbers of two rows change places in blocks of `Block`.
template <int Lanes, int Block, int... I>
AUTOPAR_INLINE void exchange(typename Vector<Lanes>::Floats &x, typename Vector<Lanes>::Floats &y,
                             std::integer_sequence<int, I...>) {
  typename Vector<Lanes>::Floats low =
      __builtin_shufflevector(x, y, (I & Block ? I - Block + Lanes : I)...);
  y = __builtin_shufflevector(x, y, (I & Block ? I + Lanes : I + Block)...);
  x = low;
}
template <int Lanes, int Block>
AUTOPAR_INLINE void transposeBlocks(typename Vector<Lanes>::Floats (&rows)[Lanes]) {
  if constexpr (Block > 0) {
    for (int i = 0; i < Lanes; ++i)
      if ((i & Block) == 0)
        exchange<Lanes, Block>(rows[i], rows[i + Block], std::make_integer_sequence<int, Lanes>());
    transposeBlocks<Lanes, Block / 2>(rows);
  }
}

/// to[c][r] = from[r][c] for a multiple of `Lanes` of rows and columns.
template <int Lanes>
AUTOPAR_INLINE void transpose(const Rows &from, int64_t rows, int64_t columns, const Rows &to) {
  for (int64_t r = 0; r < rows; r += Lanes)
    for (int64_t c = 0; c < columns; c += Lanes) {
      typename Vector<Lanes>::Floats block[Lanes];
      for (int i = 0; i < Lanes; ++i)
        load(from.data + (r + i) * from.stride + c, block[i]);
      transposeBlocks<Lanes, Lanes / 2>(block);
      for (int i = 0; i < Lanes; ++i)
        store(block[i], to.data + (c + i) * to.stride + r);
    }
}

} // namespace autopar::cpumath::attention
