// SPDX-License-Identifier: Apache-2.0
// A tile of 8 x 48 sums stays in registers while a panel of a (8 rows) meets a panel of b (48
// columns). Panels of b are packed by the first tile that reads them. Meanwhile what the next block
// of b needs is fetched, line by line, since one pass over weights is bound by memory otherwise.
#include "DenseProduct.h"
#include "OpenMP.h"
#include "Transpose.h"

#include <algorithm>

namespace autopar::runtime {
namespace {

constexpr int kLanes = 16, kVectors = 3;
constexpr int64_t kTileRows = 8, kTileColumns = kLanes * kVectors;
/// Terms summed before a tile goes back to memory: longer panels of b leave the caches sooner.
constexpr int64_t kBlockDepth = 256;
/// Columns of a block of b: with its panels of a and c it fits the second cache.
constexpr int64_t kBlockColumns = 4 * kTileColumns, kWideBlockColumns = 16 * kTileColumns;
/// A whole packed a that the second and third cache hold.
constexpr int64_t kWholeABytes = 4 << 20;
constexpr int64_t kRowsAtOnce = 256;
constexpr int64_t kLineBytes = 64, kFloatsPerLine = 16;
/// Steps of depth per line fetched for the next block, and how far panels are fetched ahead.
constexpr int64_t kStepsPerLine = 8, kStepsAhead = 2;

int64_t roundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// Walks the lines of a strided block, one per call.
struct LineWalk {
  const char *next = nullptr;
  int64_t linesPerRow = 0, rowsLeft = 0, rowBytes = 0, line = 0;

  LineWalk() = default;
  LineWalk(const float *data, int64_t rows, int64_t rowStride, int64_t rowLength) {
    auto first = reinterpret_cast<uintptr_t>(data);
    next = reinterpret_cast<const char *>(first / kLineBytes * kLineBytes);
    linesPerRow = int64_t(first % kLineBytes + size_t(rowLength) * 4 + kLineBytes - 1) / kLineBytes;
    rowsLeft = rows;
    rowBytes = rowStride * 4;
  }
  /// To the second cache, or to the first in order to write.
  template <bool ToWrite>
  void fetch() {
    if (rowsLeft == 0)
      return;
    __builtin_prefetch(next + line * kLineBytes, ToWrite, ToWrite ? 3 : 2);
    if (++line == linesPerRow) {
      line = 0;
      next += rowBytes;
      --rowsLeft;
    }
  }
};

/// What the next blocks need.
struct Fetches {
  LineWalk first, second;
  void fetch() { (first.rowsLeft > 0 ? first : second).fetch<false>(); }
};

/// What a tile does with its sums.
struct TileStore {
  float *c;
  int64_t stride, rows;
  const float *bias, *addend; ///< null: none; the addend has the stride of c
};

enum class PanelB { Packed, Source };

/// One tile. `Source`: b lies in rows of `bStride` and is packed on the way. `Full`: all columns
/// exist.
template <PanelB Kind, bool Full>
AUTOPAR_AVX512 void tile(int64_t depth, const float *a, const float *b, int64_t bStride,
                         float *packed, int64_t columns, const TileStore &store, Fetches &next) {
  __mmask16 masks[kVectors];
  for (int j = 0; j < kVectors; ++j)
    masks[j] = Full ? __mmask16(0xffff)
                    : __mmask16((1u << std::clamp<int64_t>(columns - j * kLanes, 0, kLanes)) - 1);
  __m512 sums[kTileRows][kVectors];
  for (int i = 0; i < kTileRows; ++i)
    for (int j = 0; j < kVectors; ++j)
      sums[i][j] = _mm512_setzero_ps();
  auto step = [&](int64_t k) __attribute__((always_inline)) AUTOPAR_AVX512 {
    __m512 v[kVectors];
    for (int j = 0; j < kVectors; ++j) {
      if (Kind == PanelB::Packed) {
        v[j] = _mm512_load_ps(b + k * kTileColumns + j * kLanes);
        _mm_prefetch(b + (k + kStepsAhead) * kTileColumns + j * kLanes, _MM_HINT_T0);
      } else {
        v[j] = Full ? _mm512_loadu_ps(b + k * bStride + j * kLanes)
                    : _mm512_maskz_loadu_ps(masks[j], b + k * bStride + j * kLanes);
        _mm_prefetch(b + (k + kStepsAhead) * bStride + j * kLanes, _MM_HINT_T0);
        _mm512_store_ps(packed + k * kTileColumns + j * kLanes, v[j]);
      }
    }
    for (int i = 0; i < kTileRows; ++i) {
      __m512 x = _mm512_set1_ps(a[k * kTileRows + i]);
      for (int j = 0; j < kVectors; ++j)
        sums[i][j] = _mm512_fmadd_ps(x, v[j], sums[i][j]);
    }
  };
  LineWalk result(store.c, store.rows, store.stride, columns);
  int64_t k = 0;
  for (; k + kStepsPerLine <= depth; k += kStepsPerLine) {
    next.fetch();
    result.fetch<true>();
    for (int64_t s = 0; s < kStepsPerLine; ++s)
      step(k + s);
  }
  for (; k < depth; ++k)
    step(k);
  __m512 added[kVectors];
  for (int j = 0; j < kVectors; ++j)
    added[j] =
        store.bias ? _mm512_maskz_loadu_ps(masks[j], store.bias + j * kLanes) : _mm512_setzero_ps();
  auto finish = [&](int i) __attribute__((always_inline)) AUTOPAR_AVX512 {
    float *row = store.c + i * store.stride;
    for (int j = 0; j < kVectors; ++j) {
      __m512 sum = _mm512_add_ps(sums[i][j], added[j]);
      if (store.addend)
        sum = _mm512_add_ps(
            sum, _mm512_maskz_loadu_ps(masks[j], store.addend + i * store.stride + j * kLanes));
      _mm512_mask_storeu_ps(row + j * kLanes, masks[j], sum);
    }
  };
  for (int i = 0; i < kTileRows; ++i)
    if (i < store.rows)
      finish(i);
}

/// to[k][j] = from[j][k] for 16 x 16 elements.
AUTOPAR_AVX512_INLINE void transposeTo(const float *from, int64_t fromStride, float *to,
                                       int64_t toStride) {
  __m512i rows[16];
  for (int i = 0; i < 16; ++i)
    rows[i] = _mm512_loadu_si512(from + i * fromStride);
  transpose16(rows);
  for (int i = 0; i < 16; ++i)
    _mm512_store_si512(to + i * toStride, rows[i]);
}

/// Columns that are contiguous along the depth: packs one panel by transposing.
AUTOPAR_AVX512 void packColumns(const float *b, int64_t columnStride, int64_t columns,
                                int64_t depth, float *packed) {
  int64_t k = 0;
  if (columns == kTileColumns)
    for (; k + kLanes <= depth; k += kLanes)
      for (int j = 0; j < kVectors; ++j)
        transposeTo(b + j * kLanes * columnStride + k, columnStride,
                    packed + k * kTileColumns + j * kLanes, kTileColumns);
  for (; k < depth; ++k)
    for (int64_t j = 0; j < kTileColumns; ++j)
      packed[k * kTileColumns + j] = j < columns ? b[j * columnStride + k] : 0;
}

/// to[k][i] = from[i][k] for 8 rows of 8.
AUTOPAR_AVX512_INLINE void transpose8(const float *from, int64_t stride, float *to) {
  __m256 u[8], v[8];
  for (int i = 0; i < 8; i += 2) {
    __m256 x = _mm256_loadu_ps(from + i * stride), y = _mm256_loadu_ps(from + (i + 1) * stride);
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
AUTOPAR_AVX512 void packAcross(const float *from, int64_t stride, int64_t depth, float *packed) {
  for (int64_t k = 0; k < depth; ++k) {
    const float *here = from + k * stride;
    _mm_prefetch(here + kFloatsPerLine, _MM_HINT_T0);
    _mm256_store_ps(packed + k * kTileRows, _mm256_loadu_ps(here));
    _mm256_store_ps(packed + (depth + k) * kTileRows, _mm256_loadu_ps(here + kTileRows));
  }
}

/// Panels of 8 rows, each [depth][8]; rows that do not exist are zero.
AUTOPAR_AVX512 void packRows(const DenseProduct &p, const float *a, int64_t rows, int64_t depth,
                             float *packed) {
  int64_t i = 0;
  if (p.aRowStride == 1)
    for (; i + 2 * kTileRows <= rows; i += 2 * kTileRows)
      packAcross(a + i, p.aDepthStride, depth, packed + i * depth);
  for (; i < rows; i += kTileRows) {
    const float *from = a + i * p.aRowStride;
    float *to = packed + i * depth;
    int64_t k = 0, here = std::min(kTileRows, rows - i);
    if (here == kTileRows && p.aDepthStride == 1)
      for (; k + 8 <= depth; k += 8)
        transpose8(from + k, p.aRowStride, to + k * kTileRows);
    for (; k < depth; ++k)
      for (int64_t r = 0; r < kTileRows; ++r)
        to[k * kTileRows + r] = r < here ? from[r * p.aRowStride + k * p.aDepthStride] : 0;
  }
}

/// How a product is cut, the same for all threads, and the scratch that each of them takes.
struct Blocking {
  explicit Blocking(const DenseProduct &p)
      : packsWholeA(roundUp(p.rows, kTileRows) * p.depth * 4 <= kWholeABytes),
        rows(packsWholeA ? p.rows : std::min(p.rows, kRowsAtOnce)),
        columns(std::min(packsWholeA ? kBlockColumns : kWideBlockColumns,
                         roundUp(p.columns, kTileColumns))) {}

  bool packsWholeA;
  int64_t rows, columns; ///< of a that is packed at once; of a block of b

  int64_t elementsOfB() const { return columns * kBlockDepth; }
  int64_t scratchElements(const DenseProduct &p) const {
    int64_t depth = packsWholeA ? p.depth : std::min(p.depth, kBlockDepth);
    return roundUp(elementsOfB() + roundUp(rows, kTileRows) * depth, kFloatsPerLine);
  }
};

/// One thread's part of a product.
class Worker {
public:
  Worker(const DenseProduct &product, const DenseProduct::Operands &operands,
         const Blocking &blocking, float *scratch)
      : p(product), at(operands), blocking(blocking), packedB(scratch),
        packedA(scratch + blocking.elementsOfB()) {}

  void run() {
    bool whole = blocking.packsWholeA;
    int64_t paddedRows = roundUp(p.rows, kTileRows), rowsAtOnce = whole ? p.rows : blocking.rows;
    if (whole)
      for (int64_t k = 0; k < p.depth; k += kBlockDepth)
        packRows(p, at.a + k * p.aDepthStride, p.rows, depthAt(k), packedA + k * paddedRows);
    for (int64_t j = 0; j < p.columns; j += blocking.columns)
      for (int64_t k = 0; k < p.depth; k += kBlockDepth) {
        bool isLast = k + kBlockDepth >= p.depth;
        next.first = isLast ? blockOfB(j + blocking.columns, 0) : blockOfB(j, k + kBlockDepth);
        for (int64_t i = 0; i < p.rows; i += rowsAtOnce) {
          const float *panels = whole ? packedA + k * paddedRows : packedA;
          int64_t rows = std::min(rowsAtOnce, p.rows - i);
          if (!whole) {
            packRows(p, at.a + i * p.aRowStride + k * p.aDepthStride, rows, depthAt(k), packedA);
            bool isLastRow = i + rowsAtOnce >= p.rows;
            next.second = isLastRow ? blockOfA(0, k + kBlockDepth) : blockOfA(i + rowsAtOnce, k);
          }
          multiply(panels, i, rows, j, k);
        }
      }
  }

private:
  const DenseProduct &p;
  const DenseProduct::Operands &at;
  const Blocking &blocking;
  float *packedB, *packedA;
  Fetches next;

  int64_t depthAt(int64_t k) const { return std::min(kBlockDepth, p.depth - k); }
  LineWalk blockOfB(int64_t j, int64_t k) const {
    if (j >= p.columns)
      return {};
    int64_t columns = std::min(blocking.columns, p.columns - j);
    const float *from = at.b + j * p.bColumnStride + k * p.bDepthStride;
    return p.bColumnStride == 1 ? LineWalk(from, depthAt(k), p.bDepthStride, columns)
                                : LineWalk(from, columns, p.bColumnStride, depthAt(k));
  }
  LineWalk blockOfA(int64_t i, int64_t k) const {
    if (k >= p.depth)
      return {};
    int64_t rows = std::min(blocking.rows, p.rows - i);
    const float *from = at.a + i * p.aRowStride + k * p.aDepthStride;
    return p.aRowStride == 1 ? LineWalk(from, depthAt(k), p.aDepthStride, rows)
                             : LineWalk(from, rows, p.aRowStride, depthAt(k));
  }

  AUTOPAR_AVX512 void multiply(const float *panels, int64_t firstRow, int64_t rows, int64_t j,
                               int64_t k) {
    int64_t columns = std::min(blocking.columns, p.columns - j), depth = depthAt(k);
    for (int64_t i = 0; i < rows; i += kTileRows)
      for (int64_t t = 0; t < columns; t += kTileColumns) {
        int64_t row = firstRow + i, column = j + t, here = std::min(kTileColumns, columns - t);
        int64_t place = row * p.cRowStride + column;
        const float *addend = k > 0 ? at.c : at.addend;
        TileStore store{at.c + place, p.cRowStride, std::min(kTileRows, rows - i),
                        at.bias && k == 0 ? at.bias + column : nullptr,
                        addend ? addend + place : nullptr};
        const float *panelA = panels + i * depth;
        float *panelB = packedB + t * depth;
        const float *source = at.b + column * p.bColumnStride + k * p.bDepthStride;
        bool isFirst = row == 0, isFull = here == kTileColumns;
        if (isFirst && p.bColumnStride != 1)
          packColumns(source, p.bColumnStride, here, depth, panelB);
        if (isFirst && p.bColumnStride == 1) {
          auto run = isFull ? tile<PanelB::Source, true> : tile<PanelB::Source, false>;
          run(depth, panelA, source, p.bDepthStride, panelB, here, store, next);
        } else {
          auto run = isFull ? tile<PanelB::Packed, true> : tile<PanelB::Packed, false>;
          run(depth, panelA, panelB, 0, nullptr, here, store, next);
        }
      }
  }
};

/// A product shared out by columns or rows, whichever are more.
struct SharedProduct {
  const DenseProduct *product;
  DenseProduct::Operands operands;
  float *scratch;

  void run(int64_t part, int64_t parts) const {
    DenseProduct mine = *product;
    DenseProduct::Operands at = operands;
    bool byColumns = mine.columns >= mine.rows;
    int64_t step = byColumns ? kTileColumns : kTileRows, all = byColumns ? mine.columns : mine.rows;
    int64_t tiles = (all + step - 1) / step;
    int64_t begin = std::min(all, tiles * part / parts * step),
            end = std::min(all, tiles * (part + 1) / parts * step);
    if (begin == end)
      return;
    (byColumns ? mine.columns : mine.rows) = end - begin;
    (byColumns ? at.b : at.a) += begin * (byColumns ? mine.bColumnStride : mine.aRowStride);
    int64_t place = begin * (byColumns ? 1 : mine.cRowStride);
    at.c += place;
    if (at.addend)
      at.addend += place;
    if (at.bias && byColumns)
      at.bias += begin;
    Blocking blocking(*product);
    Worker(mine, at, blocking, scratch + part * blocking.scratchElements(*product)).run();
  }
};

void runPart(void *data) {
  static_cast<SharedProduct *>(data)->run(omp_get_thread_num(), omp_get_num_threads());
}

} // namespace

bool DenseProduct::isWorthwhile() const {
  static const bool hasAvx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return hasAvx512 && rows >= 64 && columns >= 2 * kTileColumns && depth >= 64;
}

int64_t DenseProduct::scratchBytes(int threads) const {
  return Blocking(*this).scratchElements(*this) * 4 * threads;
}

void DenseProduct::run(const Operands &operands, void *scratch, int threads) const {
  SharedProduct shared{this, operands, static_cast<float *>(scratch)};
  if (threads > 1)
    GOMP_parallel(runPart, &shared, unsigned(threads), 0);
  else
    shared.run(0, 1);
}

} // namespace autopar::runtime
