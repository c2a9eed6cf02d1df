// SPDX-License-Identifier: Apache-2.0
// Four tiles of 16 x 16 sums stay in the tile registers while a panel of 32 rows meets a panel of
// 32 columns, both packed (HalfPanels.h). The two sides are exchanged where that spares the larger
// one the transposition.
#include "HalfProduct.h"
#include "HalfPanels.h"
#include "LineWalk.h"
#include "autopar/CpuMath/OpenMP.h"

#include <algorithm>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace autopar::cpumath {
namespace {

/// Steps that are summed before sums go back to memory: a panel of columns then stays in the first
/// cache.
constexpr int64_t kBlockSteps = 8;
/// Panels of columns in a block: it fits the second cache with its sums and the panels of rows.
constexpr int64_t kBlockPanels = 6, kWideBlockPanels = 24;
/// The same of a product of contiguous terms that has no more steps than these: its sums never go
/// back to memory. (Terms that lie apart by a power of two displace each other before their turn.)
constexpr int64_t kLongBlockSteps = 24, kLongBlockPanels = 8;
/// All panels of rows, if the second cache holds them.
constexpr int64_t kWholeRowsBytes = 2 << 20;
constexpr int64_t kRowPanelsAtOnce = 8, kLongRowPanelsAtOnce = 4;
constexpr int64_t kSumsBytes = kPanel * kPanel * 4;
/// Sums that wait for further terms stay in the second cache.
constexpr int64_t kWaitingSumsBytes = 1 << 20;
/// Larger float32 results leave the caches before anybody reads them.
constexpr int64_t kStreamedBytes = 1 << 20;

/// The product with its sides in the order in which they are multiplied.
struct Problem {
  Side left, right;
  int64_t depth;
  bool isExchanged; ///< left are the columns of c

  Problem(const HalfProduct &p, const HalfProduct::Operands &at, bool exchanges)
      : left{static_cast<const uint8_t *>(at.a), p.rows, p.aRowStride, p.aDepthStride, false},
        right{static_cast<const uint8_t *>(at.b), p.columns, p.bColumnStride, p.bDepthStride,
              p.bIsFloat},
        depth(p.depth), isExchanged(exchanges) {
    if (isExchanged)
      std::swap(left, right);
  }
  explicit Problem(const HalfProduct &p) : Problem(p, {}, false) {
    if (wordsTransposed(left, right) > wordsTransposed(right, left) + p.rows * p.columns)
      *this = Problem(p, {}, true);
  }
  int64_t steps() const { return ceilDiv(depth, kTileTerms); }

private:
  /// 32-bit words of the operands that are transposed with these sides.
  int64_t wordsTransposed(const Side &left, const Side &right) const {
    int64_t outer =
        (left.depthStride == 1 ? 0 : left.outer) + (right.depthStride == 1 ? right.outer : 0);
    return outer * depth / 2;
  }
};

/// Where finished sums go.
struct Result {
  uint8_t *c;
  int64_t rows, columns, rowStride;
  bool isFloat, isStreamed, biasIsFloat;
  const uint8_t *bias;
};

AUTOPAR_HALF inline __m512 biasOf(const Result &to, int64_t column, __mmask16 mask) {
  if (!to.bias)
    return _mm512_setzero_ps();
  if (to.biasIsFloat)
    return _mm512_maskz_loadu_ps(mask, to.bias + column * 4);
  return _mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, to.bias + column * 2)), 16));
}

/// Writes one tile of sums whose first element is (row, column) of c.
AUTOPAR_HALF void finishTile(const float *sums, bool transposes, const Result &to, int64_t row,
                             int64_t column) {
  int64_t rows = std::min(kTile, to.rows - row), columns = std::min(kTile, to.columns - column);
  if (rows <= 0 || columns <= 0)
    return;
  __m512i tile[16];
  for (int64_t i = 0; i < kTile; ++i)
    tile[i] = _mm512_load_si512(sums + i * kTile);
  if (transposes)
    transpose16(tile);
  auto mask = __mmask16((1u << columns) - 1);
  __m512 bias = biasOf(to, column, mask);
  for (int64_t i = 0; i < rows; ++i) {
    __m512 sum = _mm512_add_ps(_mm512_castsi512_ps(tile[i]), bias);
    int64_t place = (row + i) * to.rowStride + column;
    if (!to.isFloat)
      _mm256_mask_storeu_epi16(to.c + place * 2, mask, __m256i(_mm512_cvtneps_pbh(sum)));
    else if (to.isStreamed && columns == kTile)
      _mm512_stream_ps(reinterpret_cast<float *>(to.c) + place, sum);
    else
      _mm512_mask_storeu_ps(to.c + place * 4, mask, sum);
  }
}

/// Writes 32 x 32 sums that all exist and lie as in c, a few rows at a time.
class Finishing {
public:
  Finishing() = default;
  AUTOPAR_HALF Finishing(const float *sums, const Result &to, int64_t row, int64_t column)
      : sums(sums), to(&to), row(row), column(column), left(kPanel) {}

  AUTOPAR_HALF void advance(int64_t rows) {
    if (left == 0)
      return;
    __m512 low = biasOf(*to, column, 0xffff), high = biasOf(*to, column + kTile, 0xffff);
    for (; rows > 0 && left > 0; --rows, --left, ++row) {
      const float *from =
          sums + (kPanel - left) / kTile * 2 * kTile * kTile + (kPanel - left) % kTile * kTile;
      write(_mm512_add_ps(_mm512_load_ps(from), low),
            _mm512_add_ps(_mm512_load_ps(from + kTile * kTile), high));
    }
  }

private:
  const float *sums = nullptr;
  const Result *to = nullptr;
  int64_t row = 0, column = 0, left = 0;

  AUTOPAR_HALF void write(__m512 first, __m512 second) const {
    int64_t place = row * to->rowStride + column;
    auto *floats = reinterpret_cast<float *>(to->c) + place;
    if (!to->isFloat) {
      _mm512_storeu_si512(to->c + place * 2, __m512i(_mm512_cvtne2ps_pbh(second, first)));
    } else if (to->isStreamed) {
      _mm512_stream_ps(floats, first);
      _mm512_stream_ps(floats + kTile, second);
    } else {
      _mm512_storeu_ps(floats, first);
      _mm512_storeu_ps(floats + kTile, second);
    }
  }
};

/// What is done beside the multiplication, which keeps another unit busy.
struct Beside {
  Finishing finishing;
  LineWalk left, right; ///< what the next blocks need
  int64_t rowsPerStep = 0, linesPerStep = 0;

  AUTOPAR_HALF void advance() {
    finishing.advance(rowsPerStep);
    for (int64_t i = 0; i < linesPerStep; ++i)
      (left.rowsLeft > 0 ? left : right).fetch<false>();
  }
};

/// Sums of 32 rows by 32 columns, tile by tile: of these steps, on top of what is there unless they
/// are the first.
AUTOPAR_HALF void multiplyPanels(const uint8_t *left, const uint8_t *right, int64_t steps,
                                 bool isFirst, float *sums, Beside &beside) {
  if (isFirst) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + 256, 64);
    _tile_loadd(2, sums + 512, 64);
    _tile_loadd(3, sums + 768, 64);
  }
  for (int64_t s = 0; s < steps; ++s) {
    _tile_loadd(6, right + s * kPanelBytes, 64);
    _tile_loadd(4, left + s * kPanelBytes, 64);
    _tile_loadd(7, right + s * kPanelBytes + kTileBytes, 64);
    _tile_loadd(5, left + s * kPanelBytes + kTileBytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    beside.advance();
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  _tile_stored(2, sums + 512, 64);
  _tile_stored(3, sums + 768, 64);
}

/// How a product is cut, the same for all threads, and the scratch that each of them takes.
struct Blocking {
  bool packsWholeLeft;
  int64_t rowPanels, columnPanels; ///< that are packed at once
  int64_t rowPanelsInTurn;         ///< whose sums wait for further terms
  int64_t blockSteps;              ///< that are summed at once

  explicit Blocking(const Problem &p) {
    int64_t wholeBytes = p.left.panels() * p.steps() * kPanelBytes;
    packsWholeLeft = wholeBytes <= kWholeRowsBytes;
    bool isLong = p.steps() > kBlockSteps && p.steps() <= kLongBlockSteps &&
                  p.left.depthStride == 1 && p.right.depthStride == 1;
    blockSteps = isLong ? kLongBlockSteps : kBlockSteps;
    int64_t rowPanelsAtOnce = isLong ? kLongRowPanelsAtOnce : kRowPanelsAtOnce;
    rowPanels = packsWholeLeft ? p.left.panels() : std::min(p.left.panels(), rowPanelsAtOnce);
    int64_t wideBlockPanels = isLong ? kLongBlockPanels : kWideBlockPanels;
    columnPanels = std::min(packsWholeLeft ? kBlockPanels : wideBlockPanels, p.right.panels());
    int64_t blocks = kWaitingSumsBytes / (rowPanels * columnPanels * kSumsBytes);
    rowPanelsInTurn = p.steps() > blockSteps
                          ? std::min(p.left.panels(), rowPanels * std::max<int64_t>(blocks, 1))
                          : p.left.panels();
  }
  int64_t rightBytes() const { return columnPanels * blockSteps * kPanelBytes; }
  int64_t leftBytes(const Problem &p) const {
    return rowPanels * (packsWholeLeft ? p.steps() : blockSteps) * kPanelBytes;
  }
  int64_t sumsBytes(const Problem &p) const {
    return (p.steps() > blockSteps ? rowPanelsInTurn * columnPanels : 2) * kSumsBytes;
  }
  int64_t scratchBytes(const Problem &p) const {
    return rightBytes() + leftBytes(p) + sumsBytes(p);
  }
};

/// One thread's part of a product.
class Worker {
public:
  Worker(const Problem &problem, const Result &result, const Blocking &blocking, uint8_t *scratch)
      : p(problem), to(result), blocking(blocking), packedRight(scratch),
        packedLeft(packedRight + blocking.rightBytes()),
        sums(reinterpret_cast<float *>(packedLeft + blocking.leftBytes(problem))) {}

  AUTOPAR_HALF void run() {
    struct {
      uint8_t palette = 1, startRow = 0, reserved[14] = {};
      uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } configuration;
    _tile_loadconfig(&configuration);
    if (blocking.packsWholeLeft)
      for (int64_t s = 0; s < p.steps(); s += blocking.blockSteps)
        packLeft(0, p.left.panels(), s, packedLeft + s * p.left.panels() * kPanelBytes);
    for (int64_t i = 0; i < p.left.panels(); i += blocking.rowPanelsInTurn)
      for (int64_t j = 0; j < p.right.panels(); j += blocking.columnPanels)
        for (int64_t s = 0; s < p.steps(); s += blocking.blockSteps)
          runBlock(i, j, s);
    beside.finishing.advance(kPanel);
    _tile_release();
  }

private:
  const Problem &p;
  const Result &to;
  const Blocking &blocking;
  uint8_t *packedRight, *packedLeft;
  float *sums;
  Beside beside;
  int64_t finished = 0;

  int64_t stepsAt(int64_t s) const { return std::min(blocking.blockSteps, p.steps() - s); }

  LineWalk blockOfRight(int64_t j, int64_t s) const {
    if (s >= p.steps()) {
      s = 0;
      j += blocking.columnPanels;
    }
    return blockOf(p.right, j, blocking.columnPanels, s);
  }
  /// The rows after those from `i` on, or the first ones of the next steps.
  LineWalk blockOfLeft(int64_t i, int64_t begin, int64_t end, int64_t s) const {
    bool hasMoreRows = i + blocking.rowPanels < end;
    return blockOf(p.left, hasMoreRows ? i + blocking.rowPanels : begin, blocking.rowPanels,
                   hasMoreRows ? s : s + blocking.blockSteps);
  }
  LineWalk blockOf(const Side &side, int64_t panel, int64_t panels, int64_t s) const {
    int64_t first = panel * kPanel, term = s * kTileTerms, bytes = side.elementBytes();
    if (first >= side.outer || term >= p.depth)
      return {};
    int64_t outer = std::min(panels * kPanel, side.outer - first);
    int64_t terms = std::min(blocking.blockSteps * kTileTerms, p.depth - term);
    return side.depthStride == 1
               ? LineWalk(side.at(first, term), outer, side.outerStride * bytes, terms * bytes)
               : LineWalk(side.at(first, term), terms, side.depthStride * bytes, outer * bytes);
  }

  /// Packs these steps of some panels of rows.
  void packLeft(int64_t i, int64_t count, int64_t s, uint8_t *packed) const {
    for (int64_t panel = 0; panel < count; ++panel)
      packPanel(p.left, false, i + panel, s, stepsAt(s), p.depth,
                packed + panel * stepsAt(s) * kPanelBytes);
  }

  /// The rows from `begin` on whose turn it is, by a block of columns, over a block of terms.
  void runBlock(int64_t begin, int64_t j, int64_t s) {
    int64_t end = std::min(begin + blocking.rowPanelsInTurn, p.left.panels());
    int64_t columns = std::min(blocking.columnPanels, p.right.panels() - j), steps = stepsAt(s);
    for (int64_t t = 0; t < columns; ++t)
      packPanel(p.right, true, j + t, s, steps, p.depth, packedRight + t * steps * kPanelBytes);
    beside.right = blockOfRight(j, s + blocking.blockSteps);
    beside.linesPerStep = ceilDiv(kPanel / 2 * p.right.elementBytes(), end - begin);
    if (!blocking.packsWholeLeft)
      beside.linesPerStep += ceilDiv(kPanel / 2 * p.left.elementBytes(), columns);
    beside.rowsPerStep = ceilDiv(kPanel, steps);
    bool isFirst = s == 0, isLast = s + blocking.blockSteps >= p.steps();
    for (int64_t i = begin; i < end; i += blocking.rowPanels) {
      int64_t rows = std::min(blocking.rowPanels, end - i);
      uint8_t *left = packedLeft;
      if (blocking.packsWholeLeft) {
        left += s * p.left.panels() * kPanelBytes;
      } else {
        packLeft(i, rows, s, left);
        beside.left = blockOfLeft(i, begin, end, s);
      }
      for (int64_t t = 0; t < columns; ++t)
        for (int64_t r = 0; r < rows; ++r) {
          int64_t place =
              isFirst && isLast ? finished % 2 : (i - begin + r) * blocking.columnPanels + t;
          float *here = sums + place * kSumsBytes / 4;
          multiplyPanels(left + r * steps * kPanelBytes, packedRight + t * steps * kPanelBytes,
                         steps, isFirst, here, beside);
          if (isLast)
            finish(here, i + r, j + t);
        }
    }
  }

  void finish(const float *here, int64_t leftPanel, int64_t rightPanel) {
    ++finished;
    bool isFull =
        (leftPanel + 1) * kPanel <= p.left.outer && (rightPanel + 1) * kPanel <= p.right.outer;
    if (isFull && !p.isExchanged) {
      beside.finishing = Finishing(here, to, leftPanel * kPanel, rightPanel * kPanel);
      return;
    }
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        int64_t l = leftPanel * kPanel + i * kTile, r = rightPanel * kPanel + j * kTile;
        finishTile(here + (2 * i + j) * kTile * kTile, p.isExchanged, to, p.isExchanged ? r : l,
                   p.isExchanged ? l : r);
      }
  }
};

/// A product shared out by columns or rows, whichever are more.
struct SharedProduct {
  const HalfProduct *product;
  HalfProduct::Operands operands;
  uint8_t *scratch;

  void run(int64_t part, int64_t parts) const {
    HalfProduct mine = *product;
    HalfProduct::Operands at = operands;
    bool byColumns = mine.columns >= mine.rows;
    int64_t &all = byColumns ? mine.columns : mine.rows;
    int64_t panels = ceilDiv(all, kPanel);
    int64_t begin = std::min(all, panels * part / parts * kPanel),
            end = std::min(all, panels * (part + 1) / parts * kPanel);
    if (begin == end)
      return;
    all = end - begin;
    if (byColumns)
      at.b =
          static_cast<const uint8_t *>(at.b) + begin * mine.bColumnStride * (mine.bIsFloat ? 4 : 2);
    else
      at.a = static_cast<const uint8_t *>(at.a) + begin * mine.aRowStride * 2;
    int64_t elementBytes = mine.givesFloat ? 4 : 2;
    auto *c =
        static_cast<uint8_t *>(at.c) + begin * (byColumns ? 1 : mine.cRowStride) * elementBytes;
    auto *bias = static_cast<const uint8_t *>(at.bias);
    if (bias && byColumns)
      bias += begin * (mine.biasIsFloat ? 4 : 2);
    // The scratch of a part is that of the whole, so it is cut alike.
    Problem whole(*product), problem(mine, at, whole.isExchanged);
    Blocking blocking(whole);
    bool isAligned = reinterpret_cast<uintptr_t>(c) % kLineBytes == 0 && mine.cRowStride % 16 == 0;
    Result result{c,
                  mine.rows,
                  mine.columns,
                  mine.cRowStride,
                  mine.givesFloat,
                  isAligned && product->rows * product->columns * 4 >= kStreamedBytes,
                  mine.biasIsFloat,
                  bias};
    Worker(problem, result, blocking, scratch + part * blocking.scratchBytes(whole)).run();
  }
};

void runPart(void *data) {
  static_cast<SharedProduct *>(data)->run(omp_get_thread_num(), omp_get_num_threads());
}

/// The system saves tiles only for processes that asked for them.
bool askForTiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

} // namespace

bool HalfProduct::isWorthwhile() const {
  static const bool hasTiles = [] {
    unsigned a = 7, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return (d >> 22 & 1) && (d >> 24 & 1) && __builtin_cpu_supports("avx512bf16") && askForTiles();
  }();
  return hasTiles && rows >= kPanel && columns >= kPanel && depth >= kTileTerms;
}

int64_t HalfProduct::scratchBytes(int threads) const {
  Problem whole(*this);
  return Blocking(whole).scratchBytes(whole) * threads;
}

void HalfProduct::run(const Operands &operands, void *scratch, int threads) const {
  SharedProduct shared{this, operands, static_cast<uint8_t *>(scratch)};
  if (threads > 1)
    GOMP_parallel(runPart, &shared, unsigned(threads), 0);
  else
    shared.run(0, 1);
}

} // namespace autopar::cpumath
