// SPDX-License-Identifier: Apache-2.0
// Backward attention of one head of keys and values with its heads of queries: for each block of
// keys all queries that see them pass by, their probabilities computed again from lse. Gradients of
// the keys and values of the block stay in the cache, those of the queries are summed over blocks.
// Where that keeps too few threads busy, blocks of keys and blocks of queries are computed apart:
// in seven products instead of five, each sum in the same order.
#pragma once

#include "AttentionForward.h"

namespace autopar::cpumath::attention {

/// The scratch of a thread and how the work is cut.
struct BackwardBlocks {
  static constexpr int64_t kRows = 8 * kTileRows, kMostKeys = 96;

  int64_t keys;                          ///< of a block: all blocks about the same
  int64_t keyRows;                       ///< whole tiles of them
  int64_t queryRows;                     ///< of all heads of a group
  int64_t depth, valueDepth, keysAcross; ///< between rows of them
  int64_t scores; ///< between rows of probabilities: tiles of keys read on past the block
  int64_t keyBlocks, queryBlocks;
  bool isApart; ///< one task per block of keys, then one per block of queries

  BackwardBlocks(const AttentionShape &s, int threads) {
    int64_t blocks = std::max<int64_t>(1, (s.keys + kMostKeys - 1) / kMostKeys);
    keys = std::max<int64_t>(16, roundUp((s.keys + blocks - 1) / blocks, 16));
    keyRows = roundUp(keys, kTileRows);
    keyBlocks = (s.keys + keys - 1) / keys, queryBlocks = (s.queries + kRows - 1) / kRows;
    isApart = threads > s.batch * s.groups && keyBlocks * s.heads / s.groups * queryBlocks > 1;
    queryRows = s.heads / s.groups * roundUp(s.queries, kTileRows);
    depth = strideFor(s.depth), valueDepth = strideFor(s.valueDepth);
    keysAcross = strideFor(keys), scores = strideFor(keys + kTileRows);
  }
  int64_t tasks(const AttentionShape &s) const {
    return s.batch * (isApart ? s.groups * keyBlocks + s.heads * queryBlocks : s.groups);
  }
  int64_t floats() const {
    int64_t pairs = kRows / 2 * (depth + valueDepth + 2 * scores);
    return roundUp(queryRows * (depth + 2) + kRows * (depth + valueDepth + 2 * scores) + pairs +
                       keys * (depth + valueDepth) + (depth + valueDepth) * keysAcross +
                       keyRows * (depth + valueDepth),
                   16);
  }
};

template <typename Numbers>
class BackwardWorker {
public:
  AUTOPAR_INLINE BackwardWorker(const AttentionShape &shape, const AttentionBackward &operands,
                                const BackwardBlocks &blocks, float *scratch)
      : s(shape), at(operands), blocks(blocks) {
    auto take = [&](int64_t rows, int64_t stride) {
      Rows made{scratch, stride};
      scratch += rows * stride;
      return made;
    };
    dQ = take(blocks.queryRows, blocks.depth);
    q = take(kRows, blocks.depth);
    dO = take(kRows, blocks.valueDepth);
    powers = take(kRows, blocks.scores);
    dScores = take(kRows, blocks.scores);
    if (Numbers::kTerms > 1) {
      qTerms = take(kRows / 2, blocks.depth);
      dOTerms = take(kRows / 2, blocks.valueDepth);
      powerTerms = take(kRows / 2, blocks.scores);
      dScoreTerms = take(kRows / 2, blocks.scores);
    } else {
      qTerms = q, dOTerms = dO, powerTerms = powers, dScoreTerms = dScores;
    }
    keys = take(blocks.keys, blocks.depth);
    keysAcross = take(blocks.depth, blocks.keysAcross);
    values = take(blocks.keys, blocks.valueDepth);
    valuesAcross = take(blocks.valueDepth, blocks.keysAcross);
    dK = take(blocks.keyRows, blocks.depth);
    dV = take(blocks.keyRows, blocks.valueDepth);
    lse = take(1, blocks.queryRows).data;
    products = take(1, blocks.queryRows).data;
  }

  AUTOPAR_INLINE void run(int64_t task) {
    perGroup = s.heads / s.groups;
    Part part = partOf(task);
    prepareQueries(part);
    for (firstKey = part.firstKey; firstKey < part.lastKey; firstKey += blocks.keys) {
      here = std::min(blocks.keys, s.keys - firstKey);
      readKeys();
      int64_t keyRows = roundUp(here, kTileRows);
      std::memset(dK.data, 0, size_t(keyRows * dK.stride) * 4);
      std::memset(dV.data, 0, size_t(keyRows * dV.stride) * 4);
      for (inGroup = part.firstHead; inGroup < part.lastHead; ++inGroup)
        for (firstQuery = part.firstQuery; firstQuery < part.lastQuery; firstQuery += kRows)
          addBlock(part);
      if (part.wantsKeys) {
        writeRows(dK, s.scale, firstKey, here, s.depth, at.dK, s.dK, group);
        writeRows(dV, 1.0f, firstKey, here, s.valueDepth, at.dV, s.dV, group);
      }
    }
    if (part.wantsQueries)
      for (int64_t i = part.firstHead; i < part.lastHead; ++i)
        writeRows({dQ.data + (i * rowsPerHead() + part.firstQuery) * dQ.stride, dQ.stride}, s.scale,
                  part.firstQuery, part.lastQuery - part.firstQuery, s.depth, at.dQ, s.dQ,
                  group * perGroup + i);
  }

private:
  static constexpr int Lanes = Numbers::kLanes;
  static constexpr int64_t kRows = BackwardBlocks::kRows;

  /// The keys, heads of the group and queries of a task, and whose gradients it gives.
  struct Part {
    int64_t firstKey, lastKey, firstHead, lastHead, firstQuery, lastQuery;
    bool wantsKeys, wantsQueries;
  };

  const AttentionShape &s;
  const AttentionBackward &at;
  const BackwardBlocks &blocks;
  Rows q, dO, powers, dScores, keys, keysAcross, values, valuesAcross, dQ, dK, dV;
  /// As terms: of pairs of rows, otherwise the same again.
  Rows qTerms, dOTerms, powerTerms, dScoreTerms;
  float *lse, *products; ///< of each query: in powers of two; o times its gradient
  int64_t batch = 0, group = 0, perGroup = 0, inGroup = 0;
  int64_t firstQuery = 0, firstKey = 0, here = 0;

  int64_t rowsPerHead() const { return roundUp(s.queries, kTileRows); }
  int64_t head() const { return group * perGroup + inGroup; }
  int64_t seen(int64_t row) const {
    return std::clamp<int64_t>(visibleKeys(s, firstQuery + row) - firstKey, 0, here);
  }

  int64_t hiddenBefore(int64_t row) const {
    return std::clamp<int64_t>(firstVisibleKey(s, firstQuery + row) - firstKey, 0, here);
  }

  Part partOf(int64_t task) {
    Part part{0, s.keys, 0, perGroup, 0, s.queries, true, true};
    int64_t ofKeys = blocks.isApart ? s.batch * s.groups * blocks.keyBlocks : 0;
    if (!blocks.isApart) {
      batch = task / s.groups, group = task % s.groups;
    } else if (task < ofKeys) {
      int64_t row = task / blocks.keyBlocks;
      batch = row / s.groups, group = row % s.groups;
      part.firstKey = task % blocks.keyBlocks * blocks.keys;
      part.lastKey = std::min(part.firstKey + blocks.keys, s.keys);
      part.wantsQueries = false;
    } else {
      int64_t row = (task - ofKeys) / blocks.queryBlocks, head = row % s.heads;
      batch = row / s.heads, group = head / perGroup;
      part.firstHead = head % perGroup, part.lastHead = part.firstHead + 1;
      part.firstQuery = (task - ofKeys) % blocks.queryBlocks * kRows;
      part.lastQuery = std::min(part.firstQuery + kRows, s.queries);
      part.firstKey = firstVisibleKey(s, part.firstQuery) / blocks.keys * blocks.keys;
      part.lastKey = visibleKeys(s, part.lastQuery - 1);
      part.wantsKeys = false;
    }
    return part;
  }

  /// A block of keys and values, for the products that read it.
  AUTOPAR_INLINE void readKeys() {
    int64_t room = roundUp(here, Lanes), bytes = byteSize(s.type);
    auto across = [&](const void *data, const AttentionStrides &strides, int64_t length,
                      const Rows &plain, const Rows &to) __attribute__((always_inline)) {
      const uint8_t *from =
          headOf(data, s.type, strides, batch, group) + firstKey * strides.row * bytes;
      Numbers::readLeft(s.type, from, strides.row * bytes, here, room, length, plain);
      transpose<Lanes>(plain, room, roundUp(length, Lanes * Numbers::kTerms) / Numbers::kTerms, to);
    };
    across(at.v, s.v, s.valueDepth, values, valuesAcross);
    across(at.k, s.k, s.depth, keys, keysAcross);
    if (Numbers::kTerms > 1)
      Numbers::readRight(s.type,
                         headOf(at.k, s.type, s.k, batch, group) + firstKey * s.k.row * bytes,
                         s.k.row * bytes, here, room, s.depth, keys);
  }

  AUTOPAR_INLINE void prepareQueries(const Part &part) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (inGroup = part.firstHead; inGroup < part.lastHead; ++inGroup) {
      const uint8_t *o = headOf(at.o, s.type, s.o, batch, head()),
                    *dOut = headOf(at.dO, s.type, s.dO, batch, head());
      const float *given = at.lse + (batch * s.heads + head()) * s.queries;
      int64_t first = inGroup * rowsPerHead(), end = first + roundUp(part.lastQuery, kTileRows);
      for (int64_t row = first + part.firstQuery; row < end; ++row) {
        int64_t i = row - first;
        bool exists = i < s.queries;
        products[row] = exists ? productOf(o + i * s.o.row * byteSize(s.type),
                                           dOut + i * s.dO.row * byteSize(s.type))
                               : 0.0f;
        // Where nothing is seen, and behind the last query, all powers shall be zero.
        lse[row] = exists && given[i] != -kInfinity ? given[i] * kLog2E : kInfinity;
        std::memset(dQ.data + row * dQ.stride, 0, size_t(dQ.stride) * 4);
      }
    }
  }

  AUTOPAR_INLINE float productOf(const uint8_t *x, const uint8_t *y) const {
    typename Vector<Lanes>::Floats sum{}, a, b;
    int64_t bytes = byteSize(s.type);
    int64_t i = 0;
    for (; i + Lanes <= s.valueDepth; i += Lanes) {
      loadAsFloats<Lanes>(s.type, x + i * bytes, a);
      loadAsFloats<Lanes>(s.type, y + i * bytes, b);
      sum = sum + a * b;
    }
    if (i < s.valueDepth) {
      float rest[2][Lanes];
      readRow<Lanes>(s.type, x + i * bytes, s.valueDepth - i, rest[0], Lanes);
      readRow<Lanes>(s.type, y + i * bytes, s.valueDepth - i, rest[1], Lanes);
      load(rest[0], a);
      load(rest[1], b);
      sum = sum + a * b;
    }
    return sumOf<Lanes>(sum);
  }

  /// What a block of queries of a head adds for this block of keys.
  AUTOPAR_INLINE void addBlock(const Part &part) {
    int64_t count = std::min(kRows, s.queries - firstQuery);
    if (seen(count - 1) == 0 || hiddenBefore(0) == here)
      return;
    int64_t rows = roundUp(count, kTileRows), bytes = byteSize(s.type);
    auto read = [&](const void *data, const AttentionStrides &strides, int64_t length,
                    const Rows &plain, const Rows &terms) __attribute__((always_inline)) {
      const uint8_t *from =
          headOf(data, s.type, strides, batch, head()) + firstQuery * strides.row * bytes;
      Numbers::readLeft(s.type, from, strides.row * bytes, count, rows, length, plain);
      if (Numbers::kTerms > 1)
        Numbers::readRight(s.type, from, strides.row * bytes, count, rows, length, terms);
      fetchRows(from + kRows * strides.row * bytes, strides.row * bytes,
                std::min(kRows, s.queries - firstQuery - kRows), length * bytes);
    };
    read(at.q, s.q, s.depth, q, qTerms);
    read(at.dO, s.dO, s.valueDepth, dO, dOTerms);
    auto seenByTile = [&](int64_t row) {
      return hiddenBefore(row) == here
                 ? 0
                 : seen(std::min(row + kTileRows, s.queries - firstQuery) - 1);
    };
    auto roomOf = [&](int64_t row) {
      return roundUp(seenByTile(row / kTileRows * kTileRows), Lanes);
    };
    multiply<Numbers>({q.data, q.stride, 1}, rows, keysAcross, powers, here, false,
                      [&](int64_t row) {
                        return Extent{0, s.depth, seenByTile(row)};
                      });
    multiply<Numbers>({dO.data, dO.stride, 1}, rows, valuesAcross, dScores, here, false,
                      [&](int64_t row) {
                        return Extent{0, s.valueDepth, seenByTile(row)};
                      });
    for (int64_t row = 0; row < rows; ++row)
      finishRow(row, roomOf(row));
    Numbers::pairFloats(powers, rows, roundUp(here + kTileRows, Lanes), powerTerms);
    Numbers::pairFloats(dScores, rows, roundUp(here + kTileRows, Lanes), dScoreTerms);
    for (int64_t row = 0; row < rows; ++row)
      Numbers::narrow(dScores.data + row * dScores.stride, roomOf(row));
    int64_t place = inGroup * rowsPerHead() + firstQuery;
    if (part.wantsQueries)
      multiply<Numbers>({dScores.data, dScores.stride, 1}, rows, keys,
                        {dQ.data + place * dQ.stride, dQ.stride}, s.depth, true, [&](int64_t row) {
                          return Extent{hiddenBefore(row), seenByTile(row), s.depth};
                        });
    if (!part.wantsKeys)
      return;
    // Of the queries, those that see one of a tile of keys.
    auto extentOf = [&](int64_t key) {
      int64_t first =
          s.isCausal ? firstKey + key - (s.keys - s.hiddenKeys - s.queries) - firstQuery : 0;
      int64_t end = s.window ? std::min(count, first + kTileRows - 1 + s.window) : count;
      return Extent{std::max<int64_t>(first, 0), std::max<int64_t>(end, 0),
                    std::max(s.depth, s.valueDepth)};
    };
    multiply<Numbers>({powerTerms.data, 1, powerTerms.stride}, here, dOTerms, dV, s.valueDepth,
                      true, extentOf);
    multiply<Numbers>({dScoreTerms.data, 1, dScoreTerms.stride}, here, qTerms, dK, s.depth, true,
                      extentOf);
  }

  /// Probabilities of a query and the gradients of its scores; zero where it sees no key.
  AUTOPAR_INLINE void finishRow(int64_t row, int64_t room) {
    using Floats = typename Vector<Lanes>::Floats;
    float *p = powers.data + row * powers.stride, *d = dScores.data + row * dScores.stride;
    int64_t visible = seen(row), place = inGroup * rowsPerHead() + firstQuery + row;
    const uint8_t *bias = nullptr;
    if (s.hasBias && visible > 0)
      bias = headOf(at.bias, s.biasType, s.bias, batch, head()) +
             ((firstQuery + row) * s.bias.row + firstKey) * byteSize(s.biasType);
    Floats largest;
    finishScores<Lanes>(s, bias, hiddenBefore(row), visible, room, p, largest);
    for (int64_t j = 0; j < room; j += Lanes) {
      Floats x, power, gradient;
      load(p + j, x);
      // No probability is above 1, but lse of large scores is rounded.
      x = x - lse[place];
      exp2Of<Lanes>(x > 0.0f ? Floats{} : x, power);
      load(d + j, gradient);
      store(power, p + j);
      store(power * (gradient - products[place]), d + j);
    }
    std::fill(p + room, p + powers.stride, 0.0f);
    std::fill(d + room, d + dScores.stride, 0.0f);
  }

  AUTOPAR_INLINE void writeRows(const Rows &from, float factor, int64_t first, int64_t count,
                                int64_t length, void *to, const AttentionStrides &strides,
                                int64_t toHead) const {
    uint8_t *start = headOf(to, s.type, strides, batch, toHead);
    for (int64_t i = 0; i < count; ++i)
      writeRow<Lanes>(s.type, from.data + i * from.stride, factor, length,
                      start + (first + i) * strides.row * byteSize(s.type));
  }
};

} // namespace autopar::cpumath::attention
