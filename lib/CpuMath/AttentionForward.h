// SPDX-License-Identifier: Apache-2.0
// Forward attention of one block of queries: keys and values pass by in blocks, and what was summed
// so far is scaled whenever a row's largest score grows.
#pragma once

#include "AttentionTiles.h"
#include "autopar/CpuMath/Attention.h"

#include <cmath>
#include <limits>

namespace autopar::cpumath::attention {

/// Which part of a row of scores exists.
inline int64_t visibleKeys(const AttentionShape &s, int64_t query) {
  if (query >= s.queries)
    return 0;
  return s.isCausal ? std::clamp<int64_t>(query + 1 + s.keys - s.hiddenKeys - s.queries, 0, s.keys)
                    : s.keys;
}

/// The first key that a query sees; those before do not exist for it either.
inline int64_t firstVisibleKey(const AttentionShape &s, int64_t query) {
  return s.window == 0 ? 0
                       : std::clamp<int64_t>(
                             query + 1 + s.keys - s.hiddenKeys - s.queries - s.window, 0, s.keys);
}

/// Where a head of a tensor starts.
inline const uint8_t *headOf(const void *data, DataType type, const AttentionStrides &strides,
                             int64_t batch, int64_t head) {
  return static_cast<const uint8_t *>(data) +
         (batch * strides.batch + head * strides.head) * byteSize(type);
}
inline uint8_t *headOf(void *data, DataType type, const AttentionStrides &strides, int64_t batch,
                       int64_t head) {
  return const_cast<uint8_t *>(headOf(static_cast<const void *>(data), type, strides, batch, head));
}

/// Of a bias: F32, BF16 or F16.
inline bool isMinusInfinity(DataType type, const uint8_t *number) {
  if (type == DataType::F32) {
    uint32_t bits;
    std::memcpy(&bits, number, 4);
    return bits == 0xff800000u;
  }
  uint16_t bits;
  std::memcpy(&bits, number, 2);
  return bits == (type == DataType::BF16 ? 0xff80 : 0xfc00);
}

/// What hides a key: stays finite when it is added to others like it.
constexpr float kHidden = 1e38f;
/// Rows whose largest score is below its negative have hidden keys alone, as far as gradients go:
/// their lse could not tell how many there are. In powers of two.
constexpr float kHiddenRow = 0x1p17f * kLog2E;

/// Scores of one row in powers of two: scaled, with the bias, -inf where no key is seen: before
/// `first` and from `visible` on.
template <int Lanes>
AUTOPAR_INLINE void finishScores(const AttentionShape &s, const uint8_t *bias, int64_t first,
                                 int64_t visible, int64_t room, float *scores,
                                 typename Vector<Lanes>::Floats &largest) {
  using Floats = typename Vector<Lanes>::Floats;
  using Ints = typename Vector<Lanes>::Ints;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  int64_t bytes = byteSize(s.biasType);
  Ints lane;
  for (int i = 0; i < Lanes; ++i)
    lane[i] = i;
  largest = Floats{} - kInfinity;
  for (int64_t j = 0; j < room; j += Lanes) {
    Floats x;
    load(scores + j, x);
    x = x * (s.scale * kLog2E);
    if (bias && j < visible) {
      Floats added;
      if (j + Lanes <= visible)
        loadAsFloats<Lanes>(s.biasType, bias + j * bytes, added);
      else {
        uint8_t rest[Lanes * 4] = {};
        std::memcpy(rest, bias + j * bytes, size_t((visible - j) * bytes));
        loadAsFloats<Lanes>(s.biasType, rest, added);
      }
      // The least float, as masks have it, stays finite: it hides a key unless all are hidden.
      Floats power = added * kLog2E, least = Floats{} - kHidden;
      x = x + (power < least && added > -kInfinity ? least : power);
    }
    if (j + Lanes > visible)
      x = lane + int32_t(j) < int32_t(visible) ? x : Floats{} - kInfinity;
    if (j < first)
      x = lane + int32_t(j) < int32_t(first) ? Floats{} - kInfinity : x;
    store(x, scores + j);
    largest = x > largest ? x : largest;
  }
}

/// The scratch of a thread and how the work is cut.
struct ForwardBlocks {
  static constexpr int64_t kKeys = 128;
  /// Keys and values are packed for each block of queries: large ones, unless that leaves threads
  /// without work in the end. Rows are computed alike in both.
  static constexpr int64_t kRows = 11 * kTileRows, kManyRows = 2 * kRows, kTasksPerThread = 4;

  int64_t depth, valueDepth, keys; ///< between rows of them
  int64_t rows, queryBlocks;       ///< of a block; how many blocks

  ForwardBlocks(const AttentionShape &s, int threads)
      : depth(strideFor(s.depth)), valueDepth(strideFor(s.valueDepth)), keys(strideFor(kKeys)) {
    auto blocksOf = [&](int64_t count) { return (s.queries + count - 1) / count; };
    rows = s.batch * s.heads * blocksOf(kManyRows) >= kTasksPerThread * threads ? kManyRows : kRows;
    queryBlocks = blocksOf(rows);
  }

  int64_t tasks(const AttentionShape &s) const { return s.batch * s.heads * queryBlocks; }
  int64_t floats() const {
    return roundUp(
        rows * (depth + valueDepth + keys + 2) + kKeys * (depth + valueDepth) + depth * keys, 16);
  }
};

template <typename Numbers>
class ForwardWorker {
public:
  AUTOPAR_INLINE ForwardWorker(const AttentionShape &shape, const AttentionForward &operands,
                               const ForwardBlocks &blocks, float *scratch)
      : s(shape), at(operands), blocks(blocks) {
    constexpr int64_t kKeys = ForwardBlocks::kKeys;
    auto take = [&](int64_t rows, int64_t stride) {
      Rows made{scratch, stride};
      scratch += rows * stride;
      return made;
    };
    q = take(blocks.rows, blocks.depth);
    sums = take(blocks.rows, blocks.valueDepth);
    keys = take(kKeys, blocks.depth);
    keysAcross = take(blocks.depth, blocks.keys);
    values = take(kKeys, blocks.valueDepth);
    scores = take(blocks.rows, blocks.keys);
    largest = take(1, blocks.rows).data;
    total = take(1, blocks.rows).data;
  }

  AUTOPAR_INLINE void run(int64_t task) {
    int64_t block = task % blocks.queryBlocks, row = task / blocks.queryBlocks;
    batch = row / s.heads, head = row % s.heads;
    // The last queries see most; they come first, so that threads end together.
    firstQuery = (blocks.queryBlocks - 1 - block) * blocks.rows;
    int64_t count = std::min(blocks.rows, s.queries - firstQuery);
    int64_t tiles = (count + kTileRows - 1) / kTileRows, group = head / (s.heads / s.groups);
    int64_t bytes = byteSize(s.type);
    Numbers::readLeft(s.type, headOf(at.q, s.type, s.q, batch, head) + firstQuery * s.q.row * bytes,
                      s.q.row * bytes, count, tiles * kTileRows, s.depth, q);
    std::memset(sums.data, 0, size_t(tiles * kTileRows * sums.stride) * 4);
    std::fill_n(largest, tiles * kTileRows, -std::numeric_limits<float>::infinity());
    std::fill_n(total, tiles * kTileRows, 0.0f);
    const uint8_t *k = headOf(at.k, s.type, s.k, batch, group),
                  *v = headOf(at.v, s.type, s.v, batch, group);
    int64_t visible = visibleKeys(s, firstQuery + count - 1);
    // Blocks of keys begin at the same places for all queries.
    firstKey = firstVisibleKey(s, firstQuery) / ForwardBlocks::kKeys * ForwardBlocks::kKeys;
    for (; firstKey < visible; firstKey += ForwardBlocks::kKeys) {
      int64_t here = std::min(ForwardBlocks::kKeys, visible - firstKey);
      if (isHidden(count, here))
        continue;
      int64_t room = roundUp(here, Lanes);
      Numbers::readLeft(s.type, k + firstKey * s.k.row * bytes, s.k.row * bytes, here, room,
                        s.depth, keys);
      if (!isOneQuery())
        transpose<Lanes>(keys, room, roundUp(s.depth, Lanes * Numbers::kTerms) / Numbers::kTerms,
                         keysAcross);
      Numbers::readRight(s.type, v + firstKey * s.v.row * bytes, s.v.row * bytes, here, room,
                         s.valueDepth, values);
      int64_t next = firstKey + ForwardBlocks::kKeys;
      int64_t count = std::min(ForwardBlocks::kKeys, visible - next);
      fetchRows(k + next * s.k.row * bytes, s.k.row * bytes, count, s.depth * bytes);
      fetchRows(v + next * s.v.row * bytes, s.v.row * bytes, count, s.valueDepth * bytes);
      if (isOneQuery())
        addOne(here);
      else
        addBlock(tiles * kTileRows, here);
    }
    finish(count);
  }

private:
  static constexpr int Lanes = Numbers::kLanes;

  const AttentionShape &s;
  const AttentionForward &at;
  const ForwardBlocks &blocks;
  Rows q, sums, keys, keysAcross, values, scores;
  float *largest, *total; ///< of each row: the largest score, the sum of powers
  int64_t batch = 0, head = 0, firstQuery = 0, firstKey = 0;

  /// Whether a bias of -inf hides this block of keys from all queries: caches are mostly empty.
  AUTOPAR_INLINE bool isHidden(int64_t count, int64_t here) const {
    if (!s.hasBias)
      return false;
    int64_t bytes = byteSize(s.biasType);
    for (int64_t row = 0; row < (s.bias.row == 0 ? 1 : count); ++row) {
      const uint8_t *bias = headOf(at.bias, s.biasType, s.bias, batch, head) +
                            ((firstQuery + row) * s.bias.row + firstKey) * bytes;
      for (int64_t key = 0; key < here; ++key)
        if (!isMinusInfinity(s.biasType, bias + key * bytes))
          return false;
    }
    return true;
  }

  /// A token of a decoder: tiles would compute rows that are not there.
  AUTOPAR_INLINE bool isOneQuery() const { return Numbers::kTerms == 1 && s.queries == 1; }

  /// What the only query gets from this block of keys.
  AUTOPAR_INLINE void addOne(int64_t here) {
    using Floats = typename Vector<Lanes>::Floats;
    for (int64_t key = 0; key < here; ++key) {
      Floats sum{};
      for (int64_t i = 0; i < s.depth; i += Lanes) {
        Floats x, y;
        load(q.data + i, x);
        load(keys.data + key * keys.stride + i, y);
        sum = sum + x * y;
      }
      scores.data[key] = sumOf<Lanes>(sum);
    }
    turnIntoPowers(0, scores.data, hiddenBefore(0, here), here, roundUp(here, Lanes));
    for (int64_t i = 0; i < s.valueDepth; i += Lanes) {
      Floats sum;
      load(sums.data + i, sum);
      for (int64_t key = 0; key < here; ++key) {
        Floats value;
        load(values.data + key * values.stride + i, value);
        sum = sum + value * scores.data[key];
      }
      store(sum, sums.data + i);
    }
  }

  /// How many of this block's keys lie before a window.
  int64_t hiddenBefore(int64_t row, int64_t here) const {
    return std::clamp<int64_t>(firstVisibleKey(s, firstQuery + row) - firstKey, 0, here);
  }

  /// What the queries get from this block of keys.
  AUTOPAR_INLINE void addBlock(int64_t rows, int64_t here) {
    auto seen = [&](int64_t row) {
      return std::clamp<int64_t>(visibleKeys(s, firstQuery + row) - firstKey, 0, here);
    };
    auto seenByTile = [&](int64_t row) {
      return hiddenBefore(row, here) == here
                 ? 0
                 : seen(std::min(row + kTileRows, s.queries - firstQuery) - 1);
    };
    multiply<Numbers>({q.data, q.stride, 1}, rows, keysAcross, scores, here, false,
                      [&](int64_t row) {
                        return Extent{0, s.depth, seenByTile(row)};
                      });
    for (int64_t row = 0; row < rows; ++row)
      if (int64_t room = roundUp(seenByTile(row / kTileRows * kTileRows), Lanes)) {
        turnIntoPowers(row, scores.data + row * scores.stride, hiddenBefore(row, here), seen(row),
                       room);
        Numbers::narrow(scores.data + row * scores.stride, room);
      }
    multiply<Numbers>({scores.data, scores.stride, 1}, rows, values, sums, s.valueDepth, true,
                      [&](int64_t row) {
                        return Extent{hiddenBefore(row, here), seenByTile(row), s.valueDepth};
                      });
  }

  AUTOPAR_INLINE void turnIntoPowers(int64_t row, float *here, int64_t first, int64_t visible,
                                     int64_t room) {
    using Floats = typename Vector<Lanes>::Floats;
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const uint8_t *bias = nullptr;
    if (s.hasBias && visible > 0)
      bias = headOf(at.bias, s.biasType, s.bias, batch, head) +
             ((firstQuery + row) * s.bias.row + firstKey) * byteSize(s.biasType);
    Floats lanes;
    finishScores<Lanes>(s, bias, first, visible, room, here, lanes);
    float before = largest[row], now = std::max(before, maxOf<Lanes>(lanes));
    float origin = now == -kInfinity ? 0.0f : now;
    Floats sum{};
    for (int64_t j = 0; j < room; j += Lanes) {
      Floats x, power;
      load(here + j, x);
      exp2Of<Lanes>(x - origin, power);
      store(power, here + j);
      sum = sum + power;
    }
    float factor = before == now ? 1.0f : std::exp2(before - origin);
    total[row] = total[row] * factor + sumOf<Lanes>(sum);
    largest[row] = now;
    if (factor != 1.0f)
      for (int64_t j = 0; j < sums.stride; j += Lanes) {
        Floats x;
        load(sums.data + row * sums.stride + j, x);
        store(x * factor, sums.data + row * sums.stride + j);
      }
  }

  AUTOPAR_INLINE void finish(int64_t count) {
    uint8_t *o = headOf(at.o, s.type, s.o, batch, head);
    for (int64_t i = 0; i < count; ++i) {
      // Not "greater": what is no number stays visible.
      float factor = total[i] == 0.0f ? 0.0f : 1.0f / total[i];
      writeRow<Lanes>(s.type, sums.data + i * sums.stride, factor, s.valueDepth,
                      o + (firstQuery + i) * s.o.row * byteSize(s.type));
      if (at.lse)
        at.lse[(batch * s.heads + head) * s.queries + firstQuery + i] =
            total[i] == 0.0f || largest[i] < -kHiddenRow
                ? -std::numeric_limits<float>::infinity()
                : (largest[i] + std::log2(total[i])) * kLn2;
    }
  }
};

} // namespace autopar::cpumath::attention
